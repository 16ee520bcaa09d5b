//! Measures: a number and the symbol of a unit, as in `5 km`, `20 °C`, `3.5 GB`. The number takes the form of the language,
//! the symbol stays.

use super::gap_len;

/// Symbols of units, in their own case.
const UNITS: &[&str] = &[
    "km", "m", "cm", "mm", "µm", "nm", "mi", "ft", "yd", "kg", "g", "mg", "µg", "lb", "lbs", "oz", "l", "L",
    "ml", "mL", "cl", "dl", "°C", "°F", "°", "km/h", "mph", "m/s", "m²", "km²", "cm²", "m³", "cm³", "ha",
    "kB", "KB", "MB", "GB", "TB", "PB", "kbit/s", "Mbit/s", "Gbit/s", "Mbps", "Gbps", "Hz", "kHz", "MHz",
    "GHz", "W", "kW", "MW", "GW", "Wh", "kWh", "MWh", "V", "mV", "kV", "mA", "mAh", "bar", "Pa", "hPa",
    "kPa", "dB", "px", "pt", "dpi", "ns", "µs", "ms", "s", "h", "min", "kcal", "kJ", "kN", "Nm", "rpm",
    "ppm", "MP",
];

/// Symbols, and beginnings of the names of their units in the four languages.
const NAMES: &[(&[&str], &[&str])] = &[
    (&["km"], &["kilomet", "kilomèt"]),
    (&["m"], &["meter", "metre", "mètre"]),
    (&["cm"], &["centim", "zentim", "santim"]),
    (&["mm"], &["millim", "milim"]),
    (&["kg"], &["kilo"]),
    (&["g"], &["gram"]),
    (&["mg"], &["milligram", "miligram"]),
    (&["lb", "lbs"], &["pound", "pfund", "livre", "libre"]),
    (&["l", "L"], &["liter", "litre"]),
    (&["ml", "mL"], &["millil", "milil"]),
    (&["°C", "°F", "°"], &["grad", "degr", "derece"]),
    (&["mi"], &["mile", "meile", "mil"]),
    (&["ft"], &["feet", "foot", "fuß", "pied", "ayak"]),
    (&["h"], &["hour", "stunde", "heure", "saat"]),
    (&["min"], &["minut", "dakika"]),
    (&["s"], &["second", "sekunde", "saniye"]),
    (&["km/h"], &["kilometers per hour", "kilometer pro stunde", "kilomètres par heure"]),
    (&["mph"], &["miles per hour", "meilen pro stunde"]),
    (&["W"], &["watt"]),
    (&["V"], &["volt"]),
];

/// The length of the gap before a unit at the beginning of a text, and of the unit with it.
pub(super) fn unit_len(text: &str) -> Option<(usize, usize)> {
    let gap = gap_len(text);
    let is_unit = |unit: &&&str| {
        let rest = text[gap..].strip_prefix(**unit);
        rest.is_some_and(|rest| {
            !rest.starts_with(|next: char| next.is_alphanumeric() || "/²³°".contains(next))
        })
    };
    let unit = UNITS.iter().filter(is_unit).max_by_key(|unit| unit.len())?;
    // The 1990s are no time span.
    (gap > 0 || *unit != "s").then_some((gap, gap + unit.len()))
}

/// True if a text begins with a unit or with its name in one of the languages.
pub(super) fn is_named(unit: &str, text: &str) -> bool {
    let text = text[gap_len(text)..].to_lowercase();
    let text = text.trim_start_matches(['-', ' ']);
    let own = NAMES.iter().filter(|(units, _)| units.contains(&unit)).flat_map(|(_, names)| *names);
    text.starts_with(&unit.to_lowercase()) || own.into_iter().any(|name| text.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_follow_a_number() {
        for (text, expected) in [
            (" km away", " km"),
            ("km.", "km"),
            ("\u{a0}°C", "\u{a0}°C"),
            ("&nbsp;km/h!", "&nbsp;km/h"),
            (" m²,", " m²"),
            (" km'lik", " km"),
            (" mph", " mph"),
        ] {
            assert_eq!(unit_len(text).map(|found| &text[..found.1]), Some(expected), "{text}");
        }
        for text in [" kmx", " men", " in", "", " ", " Gb2", " a", "s"] {
            assert_eq!(unit_len(text), None, "{text}");
        }
        assert!(is_named("km", " Kilometer") && is_named("°C", " Grad") && is_named("GB", "\u{a0}GB"));
        assert!(!is_named("km", " Meilen") && !is_named("GB", " MB"));
    }
}
