//! What goes to standard error: failures with their hint, notes, and progress bars on a terminal.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// The command was used wrongly: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Misuse {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// The command could not do its work: exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Prints `error:` and `hint:` lines and returns the exit code: 1 failed, 2 misused; a closed pipe is no failure.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    let cause = |error: &anyhow::Error| {
        error
            .chain()
            .find_map(|cause| cause.downcast_ref::<polyhead_text::Error>())
            .map(|cause| (cause.hint(), cause.is_misuse()))
    };
    let (hint, misused) = match (error.downcast_ref::<Misuse>(), error.downcast_ref::<Failure>()) {
        (Some(misuse), _) => (Some(misuse.hint.clone()), true),
        (_, Some(failure)) => (Some(failure.hint.clone()), false),
        _ => cause(error).map_or((None, false), |(hint, misused)| (Some(hint), misused)),
    };
    let mut stderr = std::io::stderr().lock();
    // Nothing is left to be told when standard error itself cannot be written.
    let _ = writeln!(stderr, "error: {error:#}");
    if let Some(hint) = hint {
        let _ = writeln!(stderr, "hint: {hint}");
    }
    ExitCode::from(if misused { 2 } else { 1 })
}

/// On Ctrl-C or a request to end, removes half-written files and ends with the customary code.
pub(crate) fn clean_up_when_interrupted() {
    let handler = ctrlc::set_handler(|| {
        polyhead_text::output::remove_unfinished();
        std::process::exit(130);
    });
    // Without a handler an interrupt ends the program all the same.
    drop(handler);
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        json == Some(std::io::ErrorKind::BrokenPipe)
            || cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Writes `value` as JSON to standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, value)?;
    Ok(writeln!(stdout)?)
}

/// Writes `text` to standard output.
pub(crate) fn print_text(text: &str) -> anyhow::Result<()> {
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// `1234567` as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|part| std::str::from_utf8(part).unwrap_or_default())
        .collect();
    parts.join(",")
}

/// A counting bar on a terminal, drawn anew every second; silent elsewhere.
pub(crate) fn progress(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    bar.set_style(
        ProgressStyle::with_template("{spinner} {msg} {human_pos} ({per_sec}) {elapsed}")
            .expect("a valid template"),
    );
    bar.set_message(what);
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    #[test]
    fn digits_are_grouped_in_threes() {
        let grouped = [0, 999, 1000, 1_234_567].map(super::grouped);
        assert_eq!(grouped, ["0", "999", "1,000", "1,234,567"]);
    }
}
