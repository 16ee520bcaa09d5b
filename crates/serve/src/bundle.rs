//! Bundles all modules of the page into one script, for a page in one file.
//!
//! The modules keep to a few forms, which a test enforces: imports are `import { a, b } from "./x.js";` on one line, exports are
//! declarations (`export function`, `export async function`, `export class`, `export const`), and imports are acyclic.
//! So each becomes a function that returns its exports:
//!
//! ```js
//! const module_3 = (() => { const { a, b } = module_1; …; return { c }; })();
//! ```

use crate::assets::{ALL, Asset, DOCS};

/// The script of `entry` and all modules that it imports.
pub(crate) fn bundle(entry: &str) -> String {
    let mut order = Vec::new();
    visit(entry, &mut order);
    let mut out = String::from("\"use strict\";\n");
    for (index, asset) in order.iter().enumerate() {
        out.push_str(&format!("const module_{index} = (() => {{\n"));
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
                // No text spans lines, which a test checks, so indentation says nothing.
                out.push_str(line.trim_start());
                out.push('\n');
            }
        }
        out.push_str(&format!("return {{ {} }};\n}})();\n", exported.join(", ")));
    }
    out
}

/// Appends a module to `order` after all modules that it imports.
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

/// The names of an import, and its path resolved against the file at `own`.
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

/// The name of a declaration.
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
    fn modules_can_be_bundled() {
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
                let is_bundled = !asset.path.starts_with("docs/");
                assert!(!is_bundled || line.matches('`').count() % 2 == 0, "{at}: a text over several lines");
                assert!(
                    !line.contains("</script") && !line.contains("innerHTML") && !line.contains("import("),
                    "{at}"
                );
            }
        }
    }

    #[test]
    fn every_module_follows_its_imports() {
        let entries = [(&["js/main.js", "js/comparison_page.js"][..], ALL), (&["docs/main.js"][..], DOCS)];
        for (entries, own) in entries {
            let mut order = Vec::new();
            for entry in entries {
                visit(entry, &mut order);
            }
            let is_reached = |asset: &&Asset| order.iter().any(|other| other.path == asset.path);
            let mut left = own.iter().filter(|asset| asset.extension() == "js");
            assert!(left.all(|asset| is_reached(&asset)), "{entries:?}: some modules are never imported");
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
