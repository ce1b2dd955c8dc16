//! The disks' own view of their health, as JSON from `smartctl` (smartmontools).
//!
//! The tool is optional: where it is not installed, or a device is not a disk, there are no
//! findings. Sleeping disks are not woken (`-n standby`).

use cenote_advisor::{Finding, Severity};
use cenote_control::model::{Vdev, VdevKind, VdevNaming, VdevTree};
use cenote_words::format::number::counted;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Attributes of ATA disks whose raw value counts failed sectors.
const SECTORS: [(u64, &str); 3] = [
    (5, "sectors were replaced by spare ones"),
    (197, "sectors cannot be read for now"),
    (198, "sectors cannot be read"),
];

/// The problems of a pool's disks.
pub fn findings(tree: &VdevTree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut stack: Vec<&Vdev> = vec![&tree.root];
    stack.extend(tree.spares.iter().chain(&tree.cache));
    while let Some(vdev) = stack.pop() {
        stack.extend(vdev.children.iter());
        let path = vdev.path.as_deref().filter(|_| vdev.kind == VdevKind::Disk);
        let Some(answer) = path.and_then(ask) else {
            continue;
        };
        let device = vdev.name(VdevNaming::default());
        found.extend(judge(&answer).into_iter().map(|what| Finding {
            severity: Severity::Attention,
            device: device.clone(),
            what: format!("SMART: {what}"),
            advice: "have a replacement at hand; 'smartctl -x' says more".to_owned(),
        }));
    }
    found
}

/// The tool's answer about a device; `None` without tool or answer.
fn ask(path: &str) -> Option<Value> {
    let mut command = Command::new("smartctl");
    command.args(["-j", "-n", "standby", "-H", "-A", "--", path]);
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output();
    serde_json::from_slice(&output.ok()?.stdout).ok()
}

/// The problems in an answer of `smartctl -j -H -A`.
fn judge(answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if answer["smart_status"]["passed"] == Value::Bool(false) {
        found.push("the disk expects to fail".to_owned());
    }
    let attributes = answer["ata_smart_attributes"]["table"].as_array();
    for attribute in attributes.into_iter().flatten() {
        let id = attribute["id"].as_u64();
        let raw = attribute["raw"]["value"].as_u64().unwrap_or(0);
        let meaning = SECTORS.iter().find(|(number, _)| Some(*number) == id);
        if let Some((_, meaning)) = meaning.filter(|_| raw > 0) {
            found.push(format!("{raw} {meaning}"));
        }
    }
    let log = &answer["nvme_smart_health_information_log"];
    if log["critical_warning"].as_u64().unwrap_or(0) != 0 {
        found.push("the drive gives a critical warning".to_owned());
    }
    if let Some(errors) = log["media_errors"].as_u64().filter(|errors| *errors > 0) {
        found.push(counted(errors, "media error"));
    }
    if let Some(used) = log["percentage_used"].as_u64().filter(|used| *used >= 90) {
        found.push(format!("{used} % of the drive's life is used up"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_disks_say_is_understood() {
        let ata = r#"{"smart_status":{"passed":false},"ata_smart_attributes":{"table":[
            {"id":5,"raw":{"value":16}},{"id":9,"raw":{"value":41000}},
            {"id":197,"raw":{"value":0}}]}}"#;
        let answer = serde_json::from_str(ata).expect("JSON");
        let expected = [
            "the disk expects to fail",
            "16 sectors were replaced by spare ones",
        ];
        assert_eq!(judge(&answer), expected);
        let nvme = r#"{"smart_status":{"passed":true},"nvme_smart_health_information_log":
            {"critical_warning":0,"media_errors":3,"percentage_used":12}}"#;
        assert_eq!(
            judge(&serde_json::from_str(nvme).expect("JSON")),
            ["3 media errors"]
        );
        assert!(judge(&Value::Null).is_empty());
    }
}
