//! Standard error: errors with their hint, notes, details and progress bars; and standard output.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use polyhead_text::error::system_message;
pub(crate) use polyhead_text::figures::{agreeing, counted, grouped};

/// The amount of output on standard error besides errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(crate) enum Verbosity {
    /// Nothing.
    Quiet,
    /// Notes and progress.
    Normal,
    /// Also what was loaded, and times.
    Verbose,
}

static VERBOSITY: AtomicU8 = AtomicU8::new(Verbosity::Normal as u8);

/// Sets the verbosity of the process.
pub(crate) fn set_verbosity(verbosity: Verbosity) {
    VERBOSITY.store(verbosity as u8, Ordering::Relaxed);
}

/// The verbosity of the process.
pub(crate) fn verbosity() -> Verbosity {
    match VERBOSITY.load(Ordering::Relaxed) {
        0 => Verbosity::Quiet,
        1 => Verbosity::Normal,
        _ => Verbosity::Verbose,
    }
}

/// Misuse of a command: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Misuse {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Failure of a command: exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) hint: String,
}

/// Prints `error:` and `hint:` lines and returns the exit code: 1 failed, 2 misused; 0 for a closed pipe.
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
    } else if let Some(error) = error.downcast_ref::<polyhead_words::Error>() {
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
        ("standard output could not be written: is the disk full?".into(), 1)
    };
    let message = match error.downcast_ref::<std::io::Error>() {
        Some(error) => system_message(error),
        None => error.to_string(),
    };
    write_line(&format!("error: {message}\nhint: {hint}"));
    ExitCode::from(code)
}

/// Reports a command line that cannot be parsed as `error:` and `hint:` lines; prints help and version.
pub(crate) fn misread(error: &clap::Error) -> ExitCode {
    let without_command = error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if without_command || !error.use_stderr() {
        return match error.print() {
            _ if without_command => ExitCode::from(2),
            // A pager that is closed early is no failure.
            Err(failed) if failed.kind() != std::io::ErrorKind::BrokenPipe => {
                failure(&anyhow::Error::new(failed).context("cannot write the help text"))
            }
            _ => ExitCode::SUCCESS,
        };
    }
    let text = error.render().to_string();
    let message: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let tip = text.lines().find_map(|line| line.trim().strip_prefix("tip: "));
    let hint = tip.unwrap_or("add --help for the options and examples of the command");
    write_line(&format!("{}\nhint: {hint}", message.join(" ")));
    ExitCode::from(2)
}

/// Writes a line to standard error, unless `--quiet`.
pub(crate) fn note(text: &str) {
    if verbosity() > Verbosity::Quiet {
        write_line(text);
    }
}

/// Writes a line to standard error with `--verbose`.
pub(crate) fn detail(text: impl FnOnce() -> String) {
    if verbosity() == Verbosity::Verbose {
        write_line(&text());
    }
}

/// Writes a line to standard error; there is nowhere to report a failure of that.
fn write_line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The message after a first interrupt.
pub(crate) const STOPPING: &str = "finishing the step and saving; press Ctrl-C again to quit at once";

/// The flag that a first interrupt sets instead of ending the program.
static STOPPED: OnceLock<(&'static AtomicBool, Option<&'static str>)> = OnceLock::new();

/// Makes the first interrupt set `stop`, for work that then ends by itself; a second one ends the program.
pub(crate) fn stop_when_interrupted(stop: &'static AtomicBool) {
    // The first flag wins.
    let _ = STOPPED.set((stop, Some(STOPPING)));
}

/// Makes an interrupt set `stop`, without a message; it ends the program where `stop` is true already.
pub(crate) fn stop_answer_when_interrupted(stop: &'static AtomicBool) {
    let _ = STOPPED.set((stop, None));
}

/// On SIGINT or SIGTERM, removes half-written files and exits with code 130.
pub(crate) fn clean_up_when_interrupted() {
    let handler = ctrlc::set_handler(|| {
        if let Some((stop, message)) = STOPPED.get()
            && !stop.swap(true, Ordering::Relaxed)
        {
            // The live view of a terminal shows it.
            if let (false, Some(message)) = (std::io::stderr().is_terminal(), message) {
                note(message);
            }
            return;
        }
        polyhead_text::output::remove_unfinished();
        let _lines = wait_for_lines();
        if let Ok(Some(text)) = INTERRUPT_NOTE.lock().map(|mut text| text.take()) {
            // The progress line, if there is one, stays above.
            note(&format!("\n{text}"));
        }
        std::process::exit(130);
    });
    // Without a handler an interrupt still ends the program.
    drop(handler);
}

/// The note of an interrupt.
static INTERRUPT_NOTE: Mutex<Option<String>> = Mutex::new(None);

/// Sets the note that an interrupt prints.
pub(crate) fn note_when_interrupted(text: String) {
    *INTERRUPT_NOTE.lock().unwrap_or_else(PoisonError::into_inner) = Some(text);
}

/// Held while lines are written.
static WRITING: Mutex<()> = Mutex::new(());

/// Writes lines, which an interrupt does not cut.
pub(crate) fn writing_lines<T>(write: impl FnOnce() -> T) -> T {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    write()
}

/// Waits until lines are written, a quarter of a second at most: a reader that takes nothing must not keep the program
/// alive. No line is written while the result lives.
fn wait_for_lines() -> Option<MutexGuard<'static, ()>> {
    for _ in 0..25 {
        match WRITING.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    None
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(std::io::ErrorKind::BrokenPipe)
    })
}

/// Maximum of `--threads`.
const MAX_THREADS: usize = 1024;

/// A pool of `threads` threads; default: all cores.
pub(crate) fn thread_pool(threads: Option<usize>) -> anyhow::Result<rayon::ThreadPool> {
    if let Some(threads) = threads.filter(|threads| !(1..=MAX_THREADS).contains(threads)) {
        return Err(Misuse {
            message: format!("--threads: {threads}, expected 1 to {MAX_THREADS}"),
            hint: "leave out --threads to use all cores".into(),
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

/// `10531488` as `10.5 MB`; 1 kB is 1000 bytes.
pub(crate) fn bytes(number: u64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let size = number as f64;
    match units.into_iter().find(|(unit, _)| size >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", size / unit),
        None => counted(number, "byte"),
    }
}

/// Lines of two aligned columns.
pub(crate) fn aligned(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, text)| format!("{name:width$}  {text}\n")).collect()
}

/// [`progress`], but hidden while results are printed to the same terminal.
pub(crate) fn progress_beside_results(what: &'static str) -> ProgressBar {
    if std::io::stdout().is_terminal() { ProgressBar::hidden() } else { progress(what) }
}

/// A duration: `3725` seconds as `1 h 2 min`.
pub(crate) fn time(seconds: f64) -> String {
    let seconds = seconds.max(0.0).round() as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// A counter of `what` on a terminal, redrawn every second; hidden elsewhere and with `--quiet`.
pub(crate) fn progress(what: &'static str) -> ProgressBar {
    if verbosity() == Verbosity::Quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::no_length();
    let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        // A bar that cannot be drawn does not fail the command.
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
