//! The number of lines that are translated at once: as many as take about a second, so that output comes soon and batches
//! still hold sentences of similar length.

use std::time::Duration;

use polyhead_tensor::{Device, Policy};

/// Lines per thread of the first window: enough for several batches.
const FIRST: usize = 8;
/// A window of less time is doubled, one of more time is halved.
const TIMES: [Duration; 2] = [Duration::from_millis(700), Duration::from_millis(1800)];

/// The current number of lines at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    lines: usize,
    least: usize,
    most: usize,
}

impl Window {
    /// Windows for a device. On a GPU all have the same size: large batches are fastest, and the same input gives the same
    /// batches, on which the last bits depend.
    pub(crate) fn for_device(device: &Device, threads: usize) -> Self {
        let Policy { texts: most, takes_turns, .. } = device.policy();
        let least = if takes_turns { most } else { (FIRST * threads).min(most) };
        Self { lines: least, least, most }
    }

    /// The number of lines.
    pub(crate) fn lines(self) -> usize {
        self.lines
    }

    /// Adapts to the time that a full window took.
    pub(crate) fn took(&mut self, lines: usize, time: Duration) {
        if lines >= self.lines && time < TIMES[0] {
            self.lines = (self.lines * 2).min(self.most);
        } else if time > TIMES[1] {
            self.lines = (self.lines / 2).max(self.least);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_to_about_a_second() {
        let mut window = Window::for_device(&Device::Cpu, 2);
        assert_eq!(window.lines(), 16);
        // 100 lines per second.
        let sizes: Vec<usize> = (0..6)
            .map(|_| {
                let lines = window.lines();
                window.took(lines, Duration::from_millis(10 * lines as u64));
                lines
            })
            .collect();
        assert_eq!(sizes, [16, 32, 64, 128, 128, 128]);
        window.took(128, Duration::from_secs(3));
        assert_eq!(window.lines(), 64);
        // A window that input did not fill says nothing about larger ones.
        window.took(3, Duration::from_millis(1));
        assert_eq!(window.lines(), 64);
        (0..9).for_each(|_| window.took(1, Duration::from_secs(9)));
        assert_eq!(window.lines(), 16);
    }
}
