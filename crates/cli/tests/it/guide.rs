//! Commands of the README and the guide: run as they are written, or parsed where they need a GPU, other data or minutes.
//!
//! A block ` ```sh ` is run in a temporary folder that the blocks of its page share. Of a block ` ```sh parse ` only the
//! flags of each `polyhead` command are checked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tidy::root;

/// A block of commands on a page.
struct Block {
    line: usize,
    is_run: bool,
    commands: String,
}

fn pages() -> Vec<PathBuf> {
    let guide = fs::read_dir(root().join("docs/guide")).expect("the guide");
    let mut pages: Vec<PathBuf> = guide.map(|entry| entry.expect("an entry").path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.extend(["README.md", "docs/recipes.md", "docs/benchmarks.md"].map(|name| root().join(name)));
    pages.sort();
    pages
}

fn blocks(page: &Path) -> Vec<Block> {
    let text = fs::read_to_string(page).expect("a page");
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (index, line) in text.lines().enumerate() {
        match (&mut open, line.trim()) {
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(block), _) => {
                block.commands.push_str(line);
                block.commands.push('\n');
            }
            (None, fence @ ("```sh" | "```sh parse")) => {
                open = Some(Block { line: index + 1, is_run: fence == "```sh", commands: String::new() });
            }
            (None, _) => {}
        }
    }
    assert!(open.is_none(), "{}: a block without an end", page.display());
    blocks
}

/// The commands with the program of this build under its installed name.
fn installed(commands: &str) -> String {
    commands.replace("cargo run --release -- ", "polyhead ").replace("target/release/polyhead", "polyhead")
}

/// Runs shell commands in `folder` with the program on the PATH.
fn shell(folder: &Path, programs: &Path, commands: &str) -> std::process::Output {
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    Command::new("bash")
        .args(["-euo", "pipefail", "-c", commands])
        .current_dir(folder)
        .env("PATH", path)
        .env("POLYHEAD_MODEL", root().join("models/default"))
        .output()
        .expect("bash")
}

#[test]
fn commands_of_the_guide_work() {
    let programs = tempfile::tempdir().expect("a folder");
    let program = programs.path().join("polyhead");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_polyhead"), &program).expect("a link");
    let (mut n_run, mut n_parsed) = (0, 0);
    let mut wrong = Vec::new();
    for page in pages() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["recipes", "models", "docs"] {
            std::os::unix::fs::symlink(root().join(name), folder.path().join(name)).expect("a link");
        }
        for block in blocks(&page) {
            let place = format!("{}:{}", page.strip_prefix(root()).unwrap_or(&page).display(), block.line);
            let commands = installed(&block.commands);
            if block.is_run {
                n_run += 1;
                let output = shell(folder.path(), programs.path(), &commands);
                if !output.status.success() {
                    wrong.push(format!("{place}:\n{commands}{}", String::from_utf8_lossy(&output.stderr)));
                }
                continue;
            }
            for command in parsed_commands(&commands) {
                n_parsed += 1;
                // Flags before --help are parsed; the help is then printed instead of the work being done.
                let output = shell(folder.path(), programs.path(), &format!("{command} --help"));
                if !output.status.success() {
                    wrong.push(format!("{place}:\n{command}\n{}", String::from_utf8_lossy(&output.stderr)));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} commands fail:\n{}", wrong.len(), wrong.join("\n"));
    assert!(n_run >= 20 && n_parsed >= 20, "only {n_run} blocks run and {n_parsed} commands parsed");
}

/// Each `polyhead …` command of a block, without redirections, pipes and what follows them.
fn parsed_commands(commands: &str) -> Vec<String> {
    let joined = commands.replace("\\\n", " ");
    joined
        .lines()
        .filter_map(|line| {
            let start =
                line.find("polyhead ").filter(|at| line[..*at].split(' ').all(is_before_a_program))?;
            Some(before_operator(&line[start..]).to_owned())
        })
        .collect()
}

/// True for what may stand before a program's name: nothing, a setting of the environment, a launcher.
fn is_before_a_program(word: &str) -> bool {
    word.is_empty() || word.contains('=') || ["time", "nohup", "sudo"].contains(&word)
}

/// The part of a command line before the first unquoted `|`, `<`, `>`, `&`, `;` or comment.
fn before_operator(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            (None, '|' | '<' | '>' | '&' | ';') => return &line[..at],
            (None, '#') if before == ' ' => return &line[..at],
            _ => {}
        }
        before = letter;
    }
    line
}

#[test]
fn commands_are_cut_before_operators() {
    let cut =
        parsed_commands("A=1 polyhead translate 'a > b' \\\n --to tr < in > out\ncat x\n# polyhead y\n");
    assert_eq!(cut, ["polyhead translate 'a > b'   --to tr "]);
}

#[test]
fn the_readme_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).expect("the README").lines().count();
    assert!(lines <= 180, "README.md has {lines} lines, at most 180 are read");
}
