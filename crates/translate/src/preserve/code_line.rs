//! Lines of code: `npm install --save-dev foo`, `let x = foo(1);`, `if (a && b) {`, `SELECT * FROM t;`. They are copied whole.
//!
//! A line must clearly be code: words of a language in the order of a sentence are none, whatever marks they have.

/// Commands of a shell, which begin a line.
const COMMANDS: &[&str] = &[
    "apt",
    "apt-get",
    "brew",
    "bundle",
    "cargo",
    "cat",
    "cd",
    "chmod",
    "chown",
    "conda",
    "cp",
    "curl",
    "docker",
    "export",
    "gem",
    "git",
    "go",
    "grep",
    "kubectl",
    "ln",
    "ls",
    "make",
    "mkdir",
    "mv",
    "node",
    "npm",
    "npx",
    "pip",
    "pip3",
    "pnpm",
    "polyhead",
    "python",
    "python3",
    "rm",
    "rsync",
    "rustup",
    "scp",
    "sed",
    "ssh",
    "sudo",
    "systemctl",
    "tar",
    "touch",
    "unzip",
    "uv",
    "wget",
    "yarn",
];

/// Second words of a command.
const ACTIONS: &[&str] = &[
    "add",
    "apply",
    "branch",
    "build",
    "checkout",
    "clone",
    "commit",
    "compose",
    "diff",
    "exec",
    "fetch",
    "fmt",
    "get",
    "init",
    "install",
    "log",
    "merge",
    "pull",
    "push",
    "rebase",
    "remove",
    "restart",
    "run",
    "start",
    "stash",
    "status",
    "stop",
    "test",
    "uninstall",
    "update",
    "upgrade",
];

/// Words that sentences have and commands do not.
const LITTLE_WORDS: &[&str] = &[
    "a", "and", "are", "by", "for", "he", "i", "in", "is", "it", "my", "of", "on", "or", "she", "so", "that",
    "the", "then", "they", "this", "to", "was", "we", "with", "you", "your", "das", "der", "die", "ein",
    "eine", "ist", "und", "zu", "des", "et", "la", "le", "les", "un", "une", "bir", "bu", "ve",
];

/// Beginnings of lines of SQL, and a word that follows.
const QUERIES: &[(&str, &[&str])] = &[
    ("SELECT ", &[" FROM ", "*", ";"]),
    ("INSERT INTO ", &[" VALUES", " SELECT ", "("]),
    ("UPDATE ", &[" SET "]),
    ("DELETE FROM ", &[" WHERE ", ";"]),
    ("CREATE TABLE ", &["(", ";"]),
    ("DROP TABLE ", &[";"]),
    ("ALTER TABLE ", &[" ADD ", " DROP ", ";"]),
];

/// Beginnings of statements, which another sign of code must follow.
const STATEMENTS: &[&str] = &[
    "let ",
    "const ",
    "var ",
    "int ",
    "float ",
    "double ",
    "char ",
    "bool ",
    "void ",
    "auto ",
    "static ",
    "public ",
    "private ",
    "return ",
    "def ",
    "fn ",
    "func ",
    "function ",
    "class ",
    "struct ",
    "import ",
    "from ",
    "use ",
    "#include",
    "package ",
    "pub ",
    "async ",
    "await ",
    "throw ",
    "new ",
    "print(",
    "echo ",
];

/// True if a line is clearly code.
pub(super) fn is_code_line(line: &str) -> bool {
    let line = line.trim();
    let first = line.bytes().next().unwrap_or(b' ');
    (first.is_ascii_alphabetic() || b"$#}({".contains(&first))
        && (is_command(line) || is_query(line) || is_statement(line) || is_block(line))
}

/// A command of a shell with an action, an option or a path, and no word of a sentence.
fn is_command(line: &str) -> bool {
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let mut words = line.split_whitespace();
    let (Some(command), Some(second)) = (words.next(), words.next()) else { return false };
    let is_argument = |word: &str| {
        word.strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|next: char| next == '-' || next.is_ascii_alphabetic()))
            || word.starts_with(['/', '~'])
            || word.starts_with("./")
            || word.contains("://")
    };
    let has_argument = line.split_whitespace().skip(1).any(is_argument);
    let is_sentence = line.ends_with(['.', '!', '?', ',', ':'])
        || line.split_whitespace().any(|word| LITTLE_WORDS.contains(&word.to_lowercase().as_str()));
    COMMANDS.contains(&command) && (ACTIONS.contains(&second) || has_argument) && !is_sentence
}

fn is_query(line: &str) -> bool {
    QUERIES
        .iter()
        .any(|(start, signs)| line.starts_with(start) && signs.iter().any(|sign| line.contains(sign)))
}

/// A statement: `let x = foo(1);`, `def f(x):`, `x = y[3];`, `foo.bar(1, 2);`, `#include <a.h>`.
fn is_statement(line: &str) -> bool {
    let ends = line.ends_with([';', '{', '}']) || line.ends_with("):");
    let has_call = line.contains("()") || calls(line);
    let has_assignment =
        [" = ", " == ", " += ", " := ", " => ", " -> ", "->"].iter().any(|sign| line.contains(sign));
    if STATEMENTS.iter().any(|start| line.starts_with(start)) {
        let n_words = line.split_whitespace().count();
        let is_short = line.ends_with('{') && n_words <= 4 || line.ends_with(';') && n_words <= 2;
        let is_assigned = has_assignment && (has_call || line.split_whitespace().nth(2) == Some("="));
        let is_import = line.starts_with("#include") || line.contains("::");
        return ends && (has_call || has_assignment || is_short) || is_assigned || is_import;
    }
    (line.ends_with(';') && (has_assignment || has_call && !line.contains(". ")))
        || (line.ends_with('{') && has_assignment)
}

/// Control of a program: `if (a && b) {`, `} else {`, `});`, `for (i = 0; i < n; i++)`.
fn is_block(line: &str) -> bool {
    let rest = line.trim_start_matches('}').trim_start();
    let is_control =
        ["if (", "if(", "for (", "for(", "while (", "while(", "switch (", "catch (", "else if ("]
            .iter()
            .any(|start| rest.starts_with(start));
    let is_open = line.ends_with('{') || line.ends_with("};") || line.ends_with("});");
    (is_control
        && (is_open || [" && ", " || ", " == ", " != ", "++", " < "].iter().any(|sign| line.contains(sign))))
        || (line.starts_with('}') && is_open)
        || matches!(line, "}" | "});" | "};" | "} else {" | "else {")
}

/// True if a name touches an opening bracket that closes later: `foo(1)`, `a.b(x, y)`; but not *word(s)*.
fn calls(line: &str) -> bool {
    line.match_indices('(').any(|(at, _)| {
        let name_end = line[..at].ends_with(|last: char| last.is_ascii_alphanumeric() || last == '_');
        let inside = line[at + 1..].split(')').next().unwrap_or_default();
        let is_plural = matches!(inside, "s" | "es" | "n" | "en" | "e" | "innen" | "in" | "er");
        name_end && !is_plural && line[at..].contains(')')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_found() {
        for line in [
            "npm install --save-dev foo",
            "git commit -m fix",
            "$ cargo test -p foo",
            "sudo apt-get install curl",
            "curl -L https://x.org/a.sh",
            "pip install torch",
            "cd /etc/nginx",
            "let x = foo(1);",
            "const total = 3;",
            "if (a && b) {",
            "for (int i = 0; i < n; i++) {",
            "} else {",
            "}",
            "});",
            "SELECT * FROM t;",
            "SELECT name FROM users WHERE age > 3",
            "INSERT INTO t VALUES (1, 2);",
            "UPDATE t SET a = 1;",
            "def add(a, b):",
            "fn main() {",
            "#include <stdio.h>",
            "use std::io;",
            "return x;",
            "x += 1;",
            "foo.bar(1, 2);",
            "int x = 5;",
            "let x = 5",
            "public class Main {",
        ] {
            assert!(is_code_line(line), "{line}");
        }
    }

    #[test]
    fn language_is_no_code() {
        for line in [
            "Let us go (now);",
            "let me know if it works;",
            "make sure you install it",
            "Make it so.",
            "go home",
            "cat and dog",
            "git push is broken on my machine",
            "If (and only if) you agree, sign here.",
            "if you like it, buy it",
            "Select a file from the list.",
            "SELECT YOUR SEAT",
            "Update the app; it is old.",
            "Please bring your friend(s);",
            "return to sender",
            "return the book;",
            "from here to there",
            "use the door;",
            "class of 1984",
            "new car for sale",
            "He said (quietly): no;",
            "Die Katze schläft; der Hund (alt) bellt.",
            "Le chat dort ; le chien aussi ;",
            "a = b",
            "Import duties are high.",
            "python is a snake",
            "node by node",
            "",
            "#1 in the list",
            "$5 for you",
            "ls",
        ] {
            assert!(!is_code_line(line), "{line}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(text in "([a-z(){};=$# -]|let |if \\(|\\PC){0,30}") {
            is_code_line(&text);
        }
    }
}
