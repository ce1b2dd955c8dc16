//! What was measured, as a table for people and as JSON for programs.

use serde_json::{Value, json};

/// What one round of one rival took; fields that were not measured stay `None`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// MB/s, or thousands of operations a second: the part says which.
    pub rate: f64,
    /// CPU seconds of the processes that take part, for each GiB or each 10,000 operations.
    pub cpu: Option<f64>,
    /// The same of the whole machine, kernel threads included.
    pub cpu_all: Option<f64>,
    /// Stored bytes for each byte of contents.
    pub stored: Option<f64>,
}

/// All rounds of one rival.
#[derive(Clone, Debug)]
pub struct Row {
    /// What was done, such as a layout and a compression.
    pub case: String,
    /// The system that did it.
    pub who: String,
    /// In the order of the rounds.
    pub rounds: Vec<Figures>,
}

impl Row {
    /// The median of one figure; `None` if no round has it.
    pub fn median(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<f64> {
        let mut values: Vec<f64> = self.rounds.iter().filter_map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn rate(&self) -> Option<f64> {
        self.median(|figures| Some(figures.rate))
    }
}

/// A goal and whether it is reached.
#[derive(Clone, Debug)]
pub struct Goal {
    /// What is compared.
    pub name: String,
    /// Ours relative to theirs.
    pub ratio: f64,
    /// The bound.
    pub wanted: f64,
    /// The ratio may be at most the bound, rather than at least.
    pub is_limit: bool,
}

impl Goal {
    /// Whether it is reached.
    pub fn is_reached(&self) -> bool {
        match self.is_limit {
            true => self.ratio <= self.wanted,
            false => self.ratio >= self.wanted,
        }
    }
}

/// The result of one part.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was measured.
    pub rows: Vec<Row>,
    /// What was wanted.
    pub goals: Vec<Goal>,
}

impl Report {
    /// Adds a round to the row of `case` and `who`.
    pub fn add(&mut self, case: &str, who: &str, figures: Figures) {
        let is_same = |row: &&mut Row| row.case == case && row.who == who;
        match self.rows.iter_mut().find(is_same) {
            Some(row) => row.rounds.push(figures),
            None => self.rows.push(Row {
                case: case.to_owned(),
                who: who.to_owned(),
                rounds: vec![figures],
            }),
        }
    }

    fn find(&self, case: &str, who: &str) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.case == case && row.who == who)
    }

    /// Wants `ours` to be at least `wanted` times as fast as `theirs`, if both were measured.
    pub fn want_rate(&mut self, case: &str, (ours, theirs): (&str, &str), wanted: f64) {
        let rate = |who| self.find(case, who).and_then(Row::rate);
        if let (Some(our), Some(their)) = (rate(ours), rate(theirs)) {
            self.goals.push(Goal {
                name: format!("{case}: rate of {ours}, of {theirs}"),
                ratio: our / their,
                wanted,
                is_limit: false,
            });
        }
    }

    /// Wants `ours` to take at most `wanted` times the processor time of `theirs`.
    pub fn want_cpu(&mut self, case: &str, (ours, theirs): (&str, &str), wanted: f64) {
        let cpu = |who| {
            self.find(case, who)
                .and_then(|row| row.median(|figures| figures.cpu))
        };
        if let (Some(our), Some(their)) = (cpu(ours), cpu(theirs)) {
            self.goals.push(Goal {
                name: format!("{case}: CPU of {ours}, of {theirs}"),
                ratio: our / their,
                wanted,
                is_limit: true,
            });
        }
    }

    /// Prints the tables; true if all goals are reached.
    pub fn print(&self, unit: &str, per: &str) -> bool {
        let cpu = format!("CPU s/{per}");
        println!(
            "  {:<24} {:<20} {unit:>10} {cpu:>12} {:>12} {:>8}",
            "", "", "all", "stored"
        );
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
        for row in &self.rows {
            println!(
                "  {:<24} {:<20} {:>10} {:>12} {:>12} {:>8}",
                row.case,
                row.who,
                shown(row.rate()),
                shown(row.median(|figures| figures.cpu)),
                shown(row.median(|figures| figures.cpu_all)),
                shown(row.median(|figures| figures.stored)),
            );
        }
        for goal in &self.goals {
            let (verdict, bound) = match (goal.is_reached(), goal.is_limit) {
                (true, false) => ("ok", "at least"),
                (true, true) => ("ok", "at most"),
                (false, false) => ("BELOW", "at least"),
                (false, true) => ("ABOVE", "at most"),
            };
            println!(
                "    {:<56} {:>6.2}, {bound} {:>4.2}  {verdict}",
                goal.name, goal.ratio, goal.wanted
            );
        }
        self.goals.iter().all(Goal::is_reached)
    }

    /// The same for programs, with every round.
    pub fn json(&self) -> Value {
        let figures = |figures: &Figures| {
            json!({
                "rate": figures.rate,
                "cpu": figures.cpu,
                "cpu_all": figures.cpu_all,
                "stored": figures.stored,
            })
        };
        let row = |row: &Row| {
            let rounds: Vec<Value> = row.rounds.iter().map(figures).collect();
            json!({ "case": row.case, "who": row.who, "rounds": rounds })
        };
        let goal = |goal: &Goal| {
            json!({
                "name": goal.name,
                "ratio": goal.ratio,
                "wanted": goal.wanted,
                "is_limit": goal.is_limit,
                "is_reached": goal.is_reached(),
            })
        };
        json!({
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "goals": self.goals.iter().map(goal).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_compare_medians() {
        let mut report = Report::default();
        for (ours, theirs) in [(10.0, 8.0), (30.0, 9.0), (20.0, 100.0)] {
            let figures = |rate: f64| Figures {
                rate,
                cpu: Some(100.0 / rate),
                ..Figures::default()
            };
            report.add("case", "us", figures(ours));
            report.add("case", "them", figures(theirs));
        }
        report.want_rate("case", ("us", "them"), 2.0);
        report.want_cpu("case", ("us", "them"), 0.4);
        report.want_rate("case", ("us", "none"), 2.0);
        assert_eq!(report.goals.len(), 2);
        assert!((report.goals[0].ratio - 20.0 / 9.0).abs() < 1e-9);
        assert!(report.goals[0].is_reached() && !report.goals[1].is_reached());
        assert!(!report.print("MB/s", "GiB"));
        assert_eq!(report.json()["goals"][1]["is_reached"], false);
    }
}
