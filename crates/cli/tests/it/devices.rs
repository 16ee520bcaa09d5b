//! `polyhead devices`, and names of devices that do not exist.

use serde_json::Value;

use crate::program::{folder, polyhead};

#[test]
fn the_cpu_is_always_listed_and_a_missing_gpu_has_a_reason() {
    let folder = folder(&[]);
    let list: Value =
        serde_json::from_str(&polyhead(folder.path(), &["devices", "--format", "json"], "").ok()).unwrap();
    assert_eq!(list["processor"]["name"], "cpu");
    assert!(list["processor"]["threads"].as_u64().unwrap() > 0, "{list}");
    let text = polyhead(folder.path(), &["devices"], "").ok();
    assert!(text.starts_with("cpu "), "{text}");
    if list["cards"].as_array().unwrap().is_empty() {
        assert!(!list["no_card"]["hint"].as_str().unwrap().is_empty(), "{list}");
        assert!(text.contains("no GPU: ") && text.contains("hint: "), "{text}");
    } else {
        assert!(text.contains("cuda:0"), "{text}");
    }
}

#[test]
fn an_unknown_device_name_is_misuse_and_a_missing_gpu_a_failure() {
    let folder = folder(&[]);
    let run = |device: &str| polyhead(folder.path(), &["bench", "train", "--device", device], "");
    let error = run("gpu").failed(2);
    assert!(error.contains("expected auto, cpu, cuda or cuda:N") && error.contains("\nhint: "), "{error}");
    let error = run("cuda:99").failed(1);
    assert!(error.starts_with("error: ") && error.contains("\nhint: "), "{error}");
    let error =
        polyhead(folder.path(), &["bench", "train", "--device", "cpu", "--dtype", "bf16"], "").failed(2);
    assert!(error.contains("--dtype bf16 on cpu, expected f32 there"), "{error}");
}
