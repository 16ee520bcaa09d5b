//! Short number labels: `0.25`, `20k`, `1.5M`, `5×10⁻⁴`.

/// Unit suffixes of large numbers: least number, unit, suffix. Four digits need no suffix.
const UNITS: [(f64, f64, &str); 3] = [(1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")];

/// Labels of evenly spaced numbers: same unit and decimals, except for zero.
pub(super) fn even(numbers: &[f64]) -> Vec<String> {
    let largest = numbers.iter().fold(0.0, |largest: f64, number| largest.max(number.abs()));
    let step = if let [first, second, ..] = numbers { second - first } else { largest };
    let (unit, letter) = unit(largest).unwrap_or_else(|| {
        let power = largest.log10().floor();
        (10f64.powf(power), format!("×10{}", raised(power as i32)))
    });
    let decimals = decimals(step / unit);
    let label = |&number: &f64| {
        if number == 0.0 { "0".to_owned() } else { signed(&format!("{:.decimals$}{letter}", number / unit)) }
    };
    numbers.iter().map(label).collect()
}

/// Label of a single number, with three significant digits.
pub fn alone(number: f64) -> String {
    if number == 0.0 || !number.is_finite() {
        return signed(&number.to_string());
    }
    let size = number.abs();
    if let Some((unit, letter)) = unit(size) {
        let number = number / unit;
        let digits = (2.0 - number.abs().log10().floor()).max(0.0) as usize;
        return signed(&format!("{}{letter}", trimmed(&format!("{number:.digits$}"))));
    }
    let text = format!("{number:.2e}");
    let (front, power) = text.split_once('e').unwrap_or((&text, "0"));
    let raised = raised(power.parse().unwrap_or(0));
    signed(&match trimmed(front) {
        "1" => format!("10{raised}"),
        front => format!("{front}×10{raised}"),
    })
}

/// Unit and suffix for numbers up to this size; `None` if a power of ten is needed.
fn unit(largest: f64) -> Option<(f64, String)> {
    if largest != 0.0 && !(1e-3..1e12).contains(&largest) {
        return None;
    }
    let found = UNITS.into_iter().find(|(least, _, _)| largest >= *least);
    Some(found.map_or((1.0, String::new()), |(_, unit, letter)| (unit, letter.into())))
}

/// Decimals that distinguish multiples of `step`.
fn decimals(step: f64) -> usize {
    // Logarithms of powers of ten may be slightly below whole numbers.
    (-(step.abs().log10() + 1e-9).floor()).clamp(0.0, 15.0) as usize
}

fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// `number` with a minus sign instead of a hyphen.
fn signed(number: &str) -> String {
    number.replace('-', "−")
}

/// `-4` as `⁻⁴`.
fn raised(power: i32) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digits = power.to_string();
    digits.chars().map(|digit| digit.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_single_numbers() {
        let numbers = [0.0, 0.25, 31.456, 1234.0, 12_345.0, 1e6, 5e-4, 1e-7, -2.0, 3.456e13, f64::NAN];
        let expected =
            ["0", "0.25", "31.5", "1234", "12.3k", "1M", "5×10⁻⁴", "10⁻⁷", "−2", "3.46×10¹³", "NaN"];
        assert_eq!(numbers.map(alone), expected);
    }

    #[test]
    fn labels_of_one_axis_share_unit_and_decimals() {
        assert_eq!(even(&[0.0, 0.5, 1.0]), ["0", "0.5", "1.0"]);
        assert_eq!(even(&[-2e-5, 0.0, 2e-5]), ["−2×10⁻⁵", "0", "2×10⁻⁵"]);
        assert_eq!(even(&[9_800.0, 10_000.0]), ["9.8k", "10.0k"]);
        assert!(even(&[]).is_empty());
    }
}
