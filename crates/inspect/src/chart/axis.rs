//! Axes: positions of values, and round tick labels.

use super::{AxisScale, label};

/// An axis: the values at its ends and its length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Axis {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) length: f64,
    pub(super) scale: AxisScale,
}

/// A tick at a round number.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    /// Distance from the low end.
    pub(super) at: f64,
    pub(super) label: String,
}

/// Margin between the outermost values and the ends of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AxisMargin {
    /// None; the axis starts at zero if the lowest value is near it.
    Tight,
    /// Some space beyond the outermost values.
    Padded,
}

impl Axis {
    /// An axis for all of `values` that it can show; its ends always differ.
    pub(super) fn new(
        values: impl Iterator<Item = f64>,
        length: f64,
        scale: AxisScale,
        margin: AxisMargin,
    ) -> Self {
        let shown = values.filter(|&value| shows(scale, value));
        let (mut low, mut high) = shown
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = if scale == AxisScale::Log { (1.0, 10.0) } else { (0.0, 1.0) };
        } else if scale == AxisScale::Log {
            // At least 2 % of space, so that the ends differ even for a single value.
            let room = if margin == AxisMargin::Padded { (high / low).powf(0.04).max(1.02) } else { 1.0 };
            (low, high) = (low / room, high * room);
        } else {
            (low, high) = widened(low, high, margin);
        }
        Self { low, high, length, scale }
    }

    /// Distance of a value from the low end; `None` if the axis cannot show it.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        if !shows(self.scale, value) {
            return None;
        }
        let part = match self.scale {
            // Halved, since the difference of the largest numbers overflows.
            AxisScale::Linear => (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0),
            AxisScale::Log => (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        part.is_finite().then_some(part * self.length)
    }

    /// Ticks at round numbers about `apart` from each other.
    pub(super) fn ticks(&self, apart: f64) -> Vec<Tick> {
        let most = (self.length / apart).floor().max(1.0);
        let (numbers, labels) = if self.scale == AxisScale::Log && self.high / self.low > 8.0 {
            let numbers = log_numbers(self.low, self.high, most as usize);
            let labels = numbers.iter().map(|&number| label::alone(number)).collect();
            (numbers, labels)
        } else {
            let numbers = round_numbers(self.low, self.high, most);
            let labels = label::even(&numbers);
            (numbers, labels)
        };
        let ticks = numbers.iter().zip(labels);
        ticks.filter_map(|(&number, label)| Some(Tick { at: self.place(number)?, label })).collect()
    }
}

fn shows(scale: AxisScale, value: f64) -> bool {
    value.is_finite() && (scale == AxisScale::Linear || value > 0.0)
}

/// Ends with space beyond the values, but not across zero; never equal.
fn widened(low: f64, high: f64, margin: AxisMargin) -> (f64, f64) {
    let span = high - low;
    if span <= high.abs().max(low.abs()) * 1e-12 {
        let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
        let under = if low >= 0.0 { (low - room).max(0.0) } else { low - room };
        return (under, high + room);
    }
    if margin == AxisMargin::Tight || !span.is_finite() {
        return (if low > 0.0 && low <= high * 0.1 { 0.0 } else { low }, high);
    }
    let room = span * 0.05;
    let under = if low >= 0.0 { (low - room).max(0.0) } else { low - room };
    let over = if high <= 0.0 { (high + room).min(0.0) } else { high + room };
    (under, over)
}

/// Multiples of 1, 2 or 5 times a power of ten between the ends, about `most` at most.
fn round_numbers(low: f64, high: f64, most: f64) -> Vec<f64> {
    let rough = high / most - low / most;
    let power = 10f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|&step| step >= rough * 0.999);
    let step = step.unwrap_or(10.0 * power);
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    if !(step.is_finite() && step > 0.0 && last - first <= 1000.0) {
        return Vec::new();
    }
    // Dividing by a power of ten is exact where multiplying by a tenth is not: 3 × 0.1 is not 0.3.
    let multiple = |index: f64| if step < 1.0 { index / (1.0 / step).round() } else { index * step };
    let exact = step >= 1.0 || ((1.0 / step).round() * step - 1.0).abs() < 1e-9;
    let count = (last - first) as i64;
    (0..=count)
        .map(|index| first + index as f64)
        .map(|index| if exact { multiple(index) } else { index * step } + 0.0)
        .collect()
}

/// Powers of ten between the ends, with their doubles and quintuples if they fit, or every n-th power if not.
fn log_numbers(low: f64, high: f64, most: usize) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let fits = |number: &f64| *number >= low * 0.999_999 && *number <= high * 1.000_001;
    let with = |times: &[f64]| -> Vec<f64> {
        (first..=last)
            .flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)))
            .filter(fits)
            .collect()
    };
    for times in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0], &[1.0]] {
        let numbers = with(times);
        if numbers.len() <= most {
            return numbers;
        }
    }
    let every = (last - first).unsigned_abs() as usize / most.max(1) + 1;
    (first..=last).step_by(every).map(|power| 10f64.powi(power)).filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels_of(values: &[f64], scale: AxisScale, length: f64, apart: f64) -> Vec<String> {
        let axis = Axis::new(values.iter().copied(), length, scale, AxisMargin::Tight);
        axis.ticks(apart).into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn ticks_are_round() {
        let linear = |low, high, most: f64| labels_of(&[low, high], AxisScale::Linear, 100.0, 100.0 / most);
        assert_eq!(linear(0.0, 100_000.0, 5.0), ["0", "20k", "40k", "60k", "80k", "100k"]);
        assert_eq!(linear(0.0, 2_400_000.0, 5.0), ["0", "0.5M", "1.0M", "1.5M", "2.0M"]);
        assert_eq!(linear(3.17, 4.9, 4.0), ["3.5", "4.0", "4.5"]);
        assert_eq!(linear(0.0, 0.3, 3.0), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(linear(0.0, 7e-4, 4.0), ["0", "2×10⁻⁴", "4×10⁻⁴", "6×10⁻⁴"]);
        assert_eq!(linear(-1.0, 1.0, 4.0), ["−1.0", "−0.5", "0", "0.5", "1.0"]);
        assert_eq!(linear(0.0, 9000.0, 3.0), ["0", "5000"]);
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten_and_their_parts() {
        let log = |low, high, most: f64| labels_of(&[low, high], AxisScale::Log, 100.0, 100.0 / most);
        assert_eq!(log(4.0, 30_000.0, 5.0), ["10", "100", "1000", "10k"]);
        assert_eq!(log(4.0, 60.0, 5.0), ["5", "10", "20", "50"]);
        assert_eq!(log(1e-6, 1e6, 4.0).len(), 4);
        assert_eq!(log(5.0, 7.0, 4.0), ["5.0", "5.5", "6.0", "6.5", "7.0"]);
    }

    #[test]
    fn an_axis_without_values_or_with_one_has_distinct_ends() {
        for (values, scale) in [
            (&[][..], AxisScale::Linear),
            (&[f64::NAN, f64::INFINITY], AxisScale::Linear),
            (&[3.0], AxisScale::Linear),
            (&[0.0], AxisScale::Linear),
            (&[-2.0, -2.0], AxisScale::Linear),
            (&[-1.0, 0.0], AxisScale::Log),
            (&[5.0], AxisScale::Log),
        ] {
            let axis = Axis::new(values.iter().copied(), 100.0, scale, AxisMargin::Padded);
            assert!(axis.low < axis.high && !axis.ticks(20.0).is_empty(), "{values:?}: {axis:?}");
        }
    }

    #[test]
    fn the_margin_does_not_cross_zero() {
        let axis = Axis::new([0.1, 10.0].into_iter(), 100.0, AxisScale::Linear, AxisMargin::Padded);
        assert_eq!(axis.low, 0.0);
        assert!(axis.high > 10.0);
    }

    proptest! {
        /// Every value has a position on the axis; ticks are sorted, not too many, and have different labels.
        #[test]
        fn laws_of_an_axis(values in prop::collection::vec(-1e15f64..1e15, 1..8), shift in -20i32..10, log: bool) {
            let values: Vec<f64> = values.iter().map(|value| value * 10f64.powi(shift)).collect();
            let scale = if log { AxisScale::Log } else { AxisScale::Linear };
            let axis = Axis::new(values.iter().copied(), 400.0, scale, AxisMargin::Padded);
            for &value in &values {
                let place = axis.place(value);
                prop_assert_eq!(place.is_some(), !log || value > 0.0);
                prop_assert!(place.is_none_or(|place| (-1e-6..=400.0 + 1e-6).contains(&place)));
            }
            let ticks = axis.ticks(50.0);
            prop_assert!(ticks.len() <= 12, "{} ticks", ticks.len());
            prop_assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at));
            prop_assert!(ticks.windows(2).all(|pair| pair[0].label != pair[1].label), "{:?}", ticks);
        }
    }
}
