//! All modules of the page as one script, for a page that is one file.
//!
//! The modules keep to a few forms, which a test holds: imports are `import { a, b } from "./x.js";` on one line, exports are
//! declarations (`export function`, `export async function`, `export class`, `export const`), and nothing imports in a circle.
//! So each becomes a function that returns what it exports:
//!
//! ```js
//! const module_3 = (() => { const { a, b } = module_1; …; return { c }; })();
//! ```

use crate::assets::{ALL, Asset, DOCS};

/// The script that running `entry` comes to.
pub(crate) fn bundle(entry: &str) -> String {
    let mut order = Vec::new();
    visit(entry, &mut order);
    let mut out = String::from("\"use strict\";\n");
    for (place, asset) in order.iter().enumerate() {
        out.push_str(&format!("const module_{place} = (() => {{\n"));
        let mut exported = Vec::new();
        for line in asset.text.lines() {
            if let Some((names, path)) = import(line, asset.path) {
                let from = order.iter().position(|other| other.path == path);
                out.push_str(&format!("const {{{names}}} = module_{};\n", from.expect("imports come first")));
            } else if let Some(rest) = line.strip_prefix("export ") {
                exported.push(declared(rest));
                out.push_str(rest);
                out.push('\n');
            } else if !line.trim_start().starts_with("//") {
                out.push_str(line);
                out.push('\n');
            }
        }
        out.push_str(&format!("return {{ {} }};\n}})();\n", exported.join(", ")));
    }
    out
}

/// A module after all that it imports.
fn visit(path: &str, order: &mut Vec<&'static Asset>) {
    if order.iter().any(|asset| asset.path == path) {
        return;
    }
    let asset = ALL.iter().chain(DOCS).find(|asset| asset.path == path).expect("a test follows all imports");
    for (_, path) in asset.text.lines().filter_map(|line| import(line, asset.path)) {
        visit(&path, order);
    }
    order.push(asset);
}

/// The names and the path of an import, relative to the file at `own`.
fn import<'a>(line: &'a str, own: &str) -> Option<(&'a str, String)> {
    let (names, path) = line.strip_prefix("import {")?.split_once("} from \"")?;
    let path = path.strip_suffix("\";")?;
    let mut parts: Vec<&str> = own.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    Some((names, parts.join("/")))
}

/// The name that a declaration declares.
fn declared(rest: &str) -> &str {
    let rest = rest.strip_prefix("async ").unwrap_or(rest);
    let rest =
        ["function ", "class ", "const "].iter().find_map(|word| rest.strip_prefix(word)).unwrap_or(rest);
    rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_keep_to_the_forms_that_can_be_bundled() {
        for asset in ALL.iter().chain(DOCS).filter(|asset| asset.extension() == "js") {
            assert!(asset.text.starts_with("// "), "{}: no first line that says what it is", asset.path);
            for line in asset.text.lines() {
                let at = format!("{}: {line}", asset.path);
                if line.starts_with("import") {
                    let (_, path) = import(line, asset.path).expect(&at);
                    assert!(ALL.iter().chain(DOCS).any(|other| other.path == path), "{at}");
                }
                if let Some(rest) = line.strip_prefix("export ") {
                    assert!(
                        ["function ", "async function ", "class ", "const "]
                            .iter()
                            .any(|word| rest.starts_with(word)),
                        "{at}"
                    );
                }
                assert!(
                    !line.contains("</script") && !line.contains("innerHTML") && !line.contains("import("),
                    "{at}"
                );
            }
        }
    }

    #[test]
    fn every_module_stands_after_what_it_imports() {
        for (entry, own) in [("js/main.js", ALL), ("docs/main.js", DOCS)] {
            let mut order = Vec::new();
            visit(entry, &mut order);
            let is_reached = |asset: &&Asset| order.iter().any(|other| other.path == asset.path);
            let mut left = own.iter().filter(|asset| asset.extension() == "js");
            assert!(left.all(|asset| is_reached(&asset)), "{entry}: some modules are never imported");
        }
        let script = bundle("js/main.js");
        assert!(!script.contains("\nimport ") && !script.contains("\nexport "));
    }

    #[test]
    fn names_of_declarations_are_found() {
        let cases = [
            ("function f(a) {", "f"),
            ("async function g(", "g"),
            ("class C {", "C"),
            ("const x_1 = 2;", "x_1"),
        ];
        for (line, name) in cases {
            assert_eq!(declared(line), name);
        }
        assert_eq!(
            import("import { a } from \"../b.js\";", "js/views/c.js"),
            Some((" a ", "js/b.js".into()))
        );
    }
}
