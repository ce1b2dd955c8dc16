//! `cenote cloud price`: what a device costs, at given prices.

use super::report::reports;
use cenote_control::model::StoreReport;
use cenote_words::command::Arguments;
use cenote_words::context::{Context, Outcome, Stop, failed};
use cenote_words::format::json::{Json, Object};

/// Stores bill in these units.
const GB: f64 = 1e9;

/// Prices in any currency; the defaults are Amazon's for the standard class, in dollars.
#[derive(Clone, Copy, Debug)]
struct Prices {
    storage: f64,
    put: f64,
    get: f64,
    egress: f64,
}

/// What a device costs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    /// Storage, per month.
    storage: f64,
    /// The part of it for unused data.
    dead: f64,
    /// Requests since the device was opened.
    requests: f64,
    /// Data fetched since the device was opened.
    egress: f64,
    /// Fetching all data once.
    restore: f64,
}

pub fn run(target: &str, arguments: &Arguments, context: &mut Context) -> Outcome {
    let price = |name: &str, default: f64| -> Result<f64, Stop> {
        let Some(word) = arguments.last(name) else {
            return Ok(default);
        };
        let number = word.to_str().and_then(|word| word.parse::<f64>().ok());
        match number.filter(|number| number.is_finite() && *number >= 0.0) {
            Some(number) => Ok(number),
            None => failed(format!("--{name}: not a price")),
        }
    };
    let prices = Prices {
        storage: price("storage", 0.023)?,
        put: price("put", 0.005)?,
        get: price("get", 0.0004)?,
        egress: price("egress", 0.09)?,
    };
    let reports = reports(target, context)?;
    let mut all = Object::new();
    for report in &reports {
        let cost = cost(report, prices);
        let place = &report.status.place;
        match arguments.has("json") {
            true => all.put(place, json(cost)),
            false => print(place, cost, !report.requests.is_empty(), context),
        }
    }
    if arguments.has("json") {
        let mut document = Object::new();
        document.put("stores", all);
        context.line(&Json::from(document).to_string());
    }
    Ok(0)
}

fn cost(report: &StoreReport, prices: Prices) -> Cost {
    let storage = |bytes: u64| bytes as f64 / GB * prices.storage;
    let number = |kinds: &[&str]| -> f64 {
        let own = report.requests.iter();
        let own = own.filter(|row| kinds.contains(&row.kind.as_str()));
        own.map(|row| row.requests).sum::<u64>() as f64
    };
    let received: u64 = report.requests.iter().map(|row| row.received).sum();
    let dead = report.stored_bytes.saturating_sub(report.live_bytes);
    let requests =
        number(&["put", "list"]) * prices.put / 1e3 + number(&["get", "head"]) * prices.get / 1e3;
    Cost {
        storage: storage(report.stored_bytes),
        dead: storage(dead),
        requests,
        egress: received as f64 / GB * prices.egress,
        restore: report.live_bytes as f64 / GB * prices.egress,
    }
}

fn print(place: &str, cost: Cost, is_open: bool, context: &mut Context) {
    context.line(place);
    context.line(&format!(
        "  {:.2} per month for storage, {:.2} of it for data that is no longer used",
        cost.storage, cost.dead
    ));
    if is_open {
        context.line(&format!(
            "  {:.4} for requests and {:.4} for what was fetched since it was opened",
            cost.requests, cost.egress
        ));
    }
    context.line(&format!(
        "  {:.2} to fetch everything once, as each scrub and each 'cenote cloud verify' does",
        cost.restore
    ));
}

fn json(cost: Cost) -> Object {
    let mut object = Object::new();
    let text = |number: f64| format!("{number:.6}");
    object.put("storage_month", text(cost.storage));
    object.put("dead_month", text(cost.dead));
    object.put("requests", text(cost.requests));
    object.put("egress", text(cost.egress));
    object.put("restore", text(cost.restore));
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_control::model::StoreRequests;

    #[test]
    fn costs_are_sums() {
        let put = StoreRequests {
            kind: "put".to_owned(),
            requests: 2000,
            ..StoreRequests::default()
        };
        let report = StoreReport {
            stored_bytes: 200_000_000_000,
            live_bytes: 100_000_000_000,
            requests: vec![put],
            ..StoreReport::default()
        };
        let prices = Prices {
            storage: 0.02,
            put: 0.005,
            get: 0.0004,
            egress: 0.1,
        };
        let expected = Cost {
            storage: 4.0,
            dead: 2.0,
            requests: 0.01,
            egress: 0.0,
            restore: 10.0,
        };
        assert_eq!(cost(&report, prices), expected);
    }
}
