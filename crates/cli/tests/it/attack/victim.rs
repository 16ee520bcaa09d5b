//! The server under attack, and its memory, read every 50 ms.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::Client;

/// What is attacked, and how hard.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// The program.
    pub(super) program: String,
    /// Its model; default: the bundled one.
    pub(super) model: Option<String>,
    /// `--max-memory`, in MiB.
    pub(super) memory: u64,
    /// Seconds that each attack goes on.
    pub(super) seconds: u64,
    /// Milliseconds within which a light client gets 99 of 100 answers.
    pub(super) slowest: f64,
    /// Target language of translations from English.
    pub(super) to: &'static str,
}

impl Setup {
    /// Starts the server.
    pub(super) fn start(&self, arguments: &[&str]) -> Victim {
        let mut command = Command::new(&self.program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--threads", "2", "--log-level", "error"]);
        command.args(["--max-memory", &format!("{}M", self.memory)]);
        if let Some(model) = &self.model {
            command.args(["--model", model]);
        }
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
        let mut stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            let mut log = String::new();
            let _ = stderr.read_to_string(&mut log);
            if log.contains("panicked") {
                eprintln!("{log}");
            }
        });
        let peak = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (own_peak, own_over, id) = (peak.clone(), is_over.clone(), child.id());
        let sampler = std::thread::spawn(move || {
            while !own_over.load(Ordering::Relaxed) {
                own_peak.fetch_max(resident(id).unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        Victim { child, port, peak, is_over, sampler: Some(sampler), limit: self.memory << 20 }
    }
}

/// A running server.
#[derive(Debug)]
pub(super) struct Victim {
    child: Child,
    port: u16,
    peak: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    sampler: Option<JoinHandle<()>>,
    limit: u64,
}

impl Victim {
    /// A client of this server with an address of its own.
    pub(super) fn client(&self, number: u8) -> Client {
        Client::new(number, self.port)
    }

    /// The largest resident memory so far, in MiB.
    pub(super) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed) >> 20
    }

    /// Resident memory now, in MiB.
    pub(super) fn now(&self) -> u64 {
        resident(self.child.id()).unwrap_or(0) >> 20
    }

    /// True if its memory never exceeded the limit by more than a tenth, and it still runs.
    pub(super) fn is_within_memory(&mut self) -> bool {
        let is_running = matches!(self.child.try_wait(), Ok(None));
        is_running && self.peak.load(Ordering::Relaxed) <= self.limit + self.limit / 10
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resident(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}
