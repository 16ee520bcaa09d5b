//! `polyhead devices`, and names of devices that there are not.

use serde_json::Value;

use crate::program::{folder, polyhead};

#[test]
fn the_processor_is_always_there_and_a_missing_card_has_its_reason() {
    let folder = folder(&[]);
    let list: Value =
        serde_json::from_str(&polyhead(folder.path(), &["devices", "--json"], "").ok()).unwrap();
    assert_eq!(list["processor"]["name"], "cpu");
    assert!(list["processor"]["threads"].as_u64().unwrap() > 0, "{list}");
    let text = polyhead(folder.path(), &["devices"], "").ok();
    assert!(text.starts_with("cpu "), "{text}");
    if list["cards"].as_array().unwrap().is_empty() {
        assert!(!list["no_card"]["hint"].as_str().unwrap().is_empty(), "{list}");
        assert!(text.contains("no card: ") && text.contains("hint: "), "{text}");
    } else {
        assert!(text.contains("cuda:0"), "{text}");
    }
}

#[test]
fn a_name_of_no_device_is_misuse_and_a_card_that_is_not_there_a_failure() {
    let folder = folder(&[]);
    let run = |device: &str| polyhead(folder.path(), &["bench", "train", "--device", device], "");
    let error = run("gpu").failed(2);
    assert!(error.contains("expected auto, cpu, cuda or cuda:N") && error.contains("\nhint: "), "{error}");
    let error = run("cuda:99").failed(1);
    assert!(error.starts_with("error: ") && error.contains("\nhint: "), "{error}");
    let error =
        polyhead(folder.path(), &["bench", "train", "--device", "cpu", "--dtype", "bf16"], "").failed(2);
    assert!(error.contains("the processor computes in f32"), "{error}");
}
