//! One comparison, and how it is printed.

/// One comparison.
#[derive(Debug)]
pub struct Comparison {
    /// What was measured.
    pub name: String,
    /// Our figure with its unit.
    pub ours: String,
    /// The rival's or the ceiling's figure.
    pub theirs: String,
    /// Ours relative to theirs; above 1 is better.
    pub ratio: f64,
    /// The ratio wanted.
    pub wanted: f64,
}

impl Comparison {
    /// Two rates, the higher the better.
    pub fn rates(name: impl Into<String>, ours: f64, theirs: f64, unit: &str, wanted: f64) -> Self {
        Self {
            name: name.into(),
            ours: format!("{ours:.2} {unit}"),
            theirs: format!("{theirs:.2} {unit}"),
            ratio: ours / theirs,
            wanted,
        }
    }

    /// Two durations in seconds, the lower the better.
    pub fn seconds(name: impl Into<String>, ours: f64, theirs: f64, wanted: f64) -> Self {
        Self {
            name: name.into(),
            ours: format!("{ours:.3} s"),
            theirs: format!("{theirs:.3} s"),
            ratio: theirs / ours,
            wanted,
        }
    }

    pub(crate) fn print(&self) {
        let verdict = if self.ratio >= self.wanted {
            "ok"
        } else {
            "BELOW"
        };
        println!(
            "  {:<44} {:>16} {:>16} {:>7.2} {:>7.2}  {verdict}",
            self.name, self.ours, self.theirs, self.ratio, self.wanted
        );
    }
}
