//! What goes to standard error: failures with their hint, notes, and progress bars on a terminal.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
pub(crate) use polyhead_text::figures::grouped;

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

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
    let (hint, code) = if let Some(misuse) = error.downcast_ref::<Misuse>() {
        (misuse.hint.clone(), 2)
    } else if let Some(failure) = error.downcast_ref::<Failure>() {
        (failure.hint.clone(), 1)
    } else if let Some(error) = error.downcast_ref::<polyhead_text::Error>() {
        (error.hint(), if error.is_misuse() { 2 } else { 1 })
    } else if let Some(error) = error.downcast_ref::<polyhead_translate::Error>() {
        (error.hint(), if error.is_misuse() { 2 } else { 1 })
    } else if let Some(error) = error.downcast_ref::<polyhead_inspect::Error>() {
        (error.hint(), if error.is_misuse() { 2 } else { 1 })
    } else if let Some(error) = error.downcast_ref::<polyhead_serve::Error>() {
        (error.hint(), if error.is_misuse() { 2 } else { 1 })
    } else if let Some(error) = error.downcast_ref::<polyhead_train::Error>() {
        (error.hint(), if error.is_misuse() { 2 } else { 1 })
    } else if let Some(error) = error.downcast_ref::<polyhead_models::Error>() {
        (error.hint(), if matches!(error, polyhead_models::Error::View { .. }) { 2 } else { 1 })
    } else if let Some(error) = error.downcast_ref::<polyhead_tensor::Error>() {
        (error.hint().to_owned(), 1)
    } else {
        ("results go to standard output: is the disk full?".into(), 1)
    };
    note(&format!("error: {error}\nhint: {hint}"));
    ExitCode::from(code)
}

/// Reports a command line that cannot be understood, in the form of every other error; help and version go out as asked.
pub(crate) fn misread(error: &clap::Error) -> ExitCode {
    let without_command = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if without_command || !error.use_stderr() {
        // A reader that has seen enough of the help text is no failure.
        let _ = error.print();
        return if without_command { ExitCode::from(2) } else { ExitCode::SUCCESS };
    }
    let text = error.render().to_string();
    let message: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let hint = tip.unwrap_or("--help after the command shows its options and examples");
    note(&format!("{}\nhint: {hint}", message.join(" ")));
    ExitCode::from(2)
}

/// Writes a line to standard error; nothing is left to be told when that cannot be written.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// What is said of a first interrupt.
pub(crate) const STOPPING: &str = "finishing the step and saving; once more to leave at once";

/// What is told of a first interrupt instead of ending the program.
static STOPPED: OnceLock<&'static AtomicBool> = OnceLock::new();

/// Lets the first interrupt only set `stop`, for work that then comes to an end by itself; a second one ends the program.
pub(crate) fn stop_when_interrupted(stop: &'static AtomicBool) {
    // Asked for twice, the first flag stays.
    let _ = STOPPED.set(stop);
}

/// On Ctrl-C or a request to end, removes half-written files and ends with code 130.
pub(crate) fn clean_up_when_interrupted() {
    let handler = ctrlc::set_handler(|| {
        if STOPPED.get().is_some_and(|stop| !stop.swap(true, Ordering::Relaxed)) {
            // A terminal has a live view, which says it by itself.
            if !std::io::stderr().is_terminal() {
                note(STOPPING);
            }
            return;
        }
        polyhead_text::output::remove_unfinished();
        std::process::exit(130);
    });
    // Without a handler an interrupt ends the program all the same.
    drop(handler);
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}

/// Most threads that an option may ask for.
const MAX_THREADS: usize = 1024;

/// A pool of `threads` threads, all cores for `None`.
pub(crate) fn thread_pool(threads: Option<usize>) -> anyhow::Result<rayon::ThreadPool> {
    if let Some(threads) = threads.filter(|threads| !(1..=MAX_THREADS).contains(threads)) {
        return Err(Misuse {
            message: format!("--threads: {threads}, expected 1 to {MAX_THREADS}"),
            hint: "leave it out to use all cores".into(),
        }
        .into());
    }
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build()?)
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

/// `10531488` as `10.5 MB`; a thousand bytes are a kB.
pub(crate) fn bytes(number: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let size = number as f64;
    match units.into_iter().find(|(unit, _)| size >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", size / unit),
        None => format!("{number} bytes"),
    }
}

/// Lines of a name and what is to be said about it, the second column below itself.
pub(crate) fn aligned(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, text)| format!("{name:width$}  {text}\n")).collect()
}

/// As [`progress`], silent also where results scroll by on the terminal.
pub(crate) fn progress_beside_results(what: &'static str) -> ProgressBar {
    if std::io::stdout().is_terminal() { ProgressBar::hidden() } else { progress(what) }
}

/// A counting bar on a terminal, drawn anew every second; silent elsewhere.
pub(crate) fn progress(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // A bar that cannot be drawn is no failure of the work it shows.
        let _ = write!(out, "{}/s", grouped(state.per_sec() as u64));
    };
    let style = ProgressStyle::with_template("{spinner} {msg} {human_pos} ({rate}) {elapsed}")
        .expect("a valid template");
    bar.set_style(style.with_key("rate", rate));
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

    #[test]
    fn sizes_have_a_unit() {
        let sizes = [999, 1000, 10_531_488, 2_000_000_000].map(super::bytes);
        assert_eq!(sizes, ["999 bytes", "1.0 kB", "10.5 MB", "2.0 GB"]);
    }
}
