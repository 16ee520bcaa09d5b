//! Options and arguments of earlier versions: hidden from the help, and answered with the name that they have now.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::{Arg, Command, Error};

use crate::choices::answer;

/// An option that has another name now.
#[derive(Debug, Clone, Copy)]
struct OldOption {
    /// The command and, where there is one, its subcommand.
    command: &'static [&'static str],
    long: &'static str,
    short: Option<char>,
    new: &'static str,
}

const fn old(command: &'static [&'static str], long: &'static str, new: &'static str) -> OldOption {
    OldOption { command, long, short: None, new }
}

const OLD: &[OldOption] = &[
    old(&["init"], "force", "--overwrite"),
    OldOption { short: Some('m'), ..old(&["score"], "metrics", "--metric") },
    old(&["devices"], "json", "--format json"),
    old(&["data", "check"], "json", "--format json"),
    old(&["data", "clean"], "json", "--format json"),
    old(&["data", "stats"], "json", "--format json"),
    old(&["tokenizer", "info"], "json", "--format json"),
    old(&["bench", "attention"], "sight", "--pattern"),
    old(&["bench", "translate"], "save", "--out"),
];

/// Commands `FROM --out TO` that were `FROM TO`.
const OLD_FOLDERS: &[&str] = &["import", "export", "quantize"];

/// `command` with an answer to every option and argument of an earlier version.
pub(crate) fn answered(mut command: Command) -> Command {
    for old in OLD {
        command = old.added(command, old.command);
    }
    for &name in OLD_FOLDERS {
        let arg = Arg::new("old-folder").value_name("TO").index(2).hide(true);
        command = command.mut_subcommand(name, |own| own.arg(arg.value_parser(FolderAnswer(name))));
    }
    command
}

impl OldOption {
    fn added(self, command: Command, path: &'static [&'static str]) -> Command {
        let Some((name, below)) = path.split_first() else {
            let arg = Arg::new(self.long).long(self.long).hide(true).num_args(0..=1);
            let arg = arg.default_missing_value("").value_parser(Answer(self));
            return command.arg(if let Some(short) = self.short { arg.short(short) } else { arg });
        };
        command.mut_subcommand(name, |own| self.added(own, below))
    }
}

/// A parser that accepts nothing and names the new option.
#[derive(Debug, Clone, Copy)]
struct Answer(OldOption);

impl TypedValueParser for Answer {
    type Value = String;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, _: &OsStr) -> Result<String, Error> {
        let OldOption { command, long, new, .. } = self.0;
        let hint = format!("polyhead {} … {new}", command.join(" "));
        Err(answer(&format!("--{long} is now {new}"), &hint))
    }
}

/// A parser that accepts no second folder and names `--out`.
#[derive(Debug, Clone, Copy)]
struct FolderAnswer(&'static str);

impl TypedValueParser for FolderAnswer {
    type Value = String;

    fn parse_ref(&self, _: &Command, _: Option<&Arg>, folder: &OsStr) -> Result<String, Error> {
        let hint = format!("polyhead {} FROM --out {}", self.0, folder.display());
        Err(answer("a second folder: the folder to write is now --out", &hint))
    }
}

#[cfg(test)]
mod tests {
    use super::{OLD, answered};
    use crate::arguments::command;

    #[test]
    fn every_old_option_answers_with_its_new_name() {
        for old in OLD {
            let option = format!("--{}", old.long);
            let arguments = ["polyhead"].iter().chain(old.command).copied().chain([option.as_str()]);
            let error = answered(command()).try_get_matches_from(arguments).unwrap_err().to_string();
            assert!(error.starts_with(&format!("error: {option} is now {}", old.new)), "{error}");
        }
    }
}
