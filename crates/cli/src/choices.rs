//! Options with named values, and answers to names that belong to another command or to an earlier version.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error, ValueEnum};

/// Parser of an option that takes some of the values of `T`.
#[derive(Debug, Clone)]
pub(crate) struct Choices<T: 'static> {
    accepted: &'static [T],
    /// Names that are not accepted, each with the name to use instead and the reason.
    answers: &'static [(&'static str, &'static str, &'static str)],
}

impl<T> Choices<T> {
    /// Accepts the values of `accepted` only.
    pub(crate) const fn new(accepted: &'static [T]) -> Self {
        Self { accepted, answers: &[] }
    }

    /// Answers each `(found, expected, reason)` with an error that names the expected value.
    pub(crate) const fn answering(
        self,
        answers: &'static [(&'static str, &'static str, &'static str)],
    ) -> Self {
        Self { accepted: self.accepted, answers }
    }
}

impl<T: ValueEnum + Clone + Send + Sync + 'static> TypedValueParser for Choices<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, Error> {
        let name = arg.and_then(Arg::get_long).unwrap_or_default();
        if let Some((found, expected, reason)) = self.answers.iter().find(|answer| answer.0 == value) {
            let message = format!("--{name} {found}, expected --{name} {expected}");
            return Err(answer(&message, reason));
        }
        let names = self.accepted.iter().filter_map(ValueEnum::to_possible_value);
        let found = PossibleValuesParser::new(names).parse_ref(command, arg, value)?;
        let is_found = |value: &&T| value.to_possible_value().is_some_and(|name| name.matches(&found, false));
        let value = self.accepted.iter().find(is_found).expect("the parser knows these names only");
        Ok(value.clone())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.accepted.iter().filter_map(ValueEnum::to_possible_value)))
    }
}

/// An error of the command line with a hint.
pub(crate) fn answer(message: &str, hint: &str) -> Error {
    Error::raw(ErrorKind::ValueValidation, format!("{message}\n\n  tip: {hint}\n"))
}
