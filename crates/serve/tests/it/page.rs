//! A trace as one HTML file.

use polyhead_attention::Filter;
use polyhead_inspect::trace::{CaptureVectors, Trace, TraceOptions};
use polyhead_serve::page;
use serde_json::Value;

use crate::engine;

fn content(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"trace\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_is_self_contained() {
    let options = TraceOptions { vectors: CaptureVectors::Yes, ..TraceOptions::default() };
    let trace = Trace::new(&engine(), "The teacher </script><script>alert(1)</script>.", &options).unwrap();
    let page = page(&trace, &Filter::default(), "opus");
    assert_eq!(page.matches("<script").count(), 2, "only the page's own scripts");
    assert!(page.contains("default-src 'none'; script-src 'sha256-") && !page.contains("<link"));
    for outside in ["src=\"", "href=\"http", "url(", "@import", "//cdn"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let found = content(&page);
    assert_eq!(found["trace"]["source"]["text"], trace.side("source").unwrap().text);
    assert_eq!(found["trace"]["attention"].as_array().unwrap().len(), 6);
    assert_eq!(found["trace"]["vectors"].as_array().unwrap().len(), 6);
    let weights = &found["trace"]["attention"][0]["weights"];
    // Two heads; two bytes a number, four letters for three bytes.
    let n = trace.side("source").unwrap().tokens.len();
    assert_eq!(weights["f16"].as_str().unwrap().len(), (2 * n * n * 2).div_ceil(3) * 4);
    assert_eq!((&found["model"]["name"], &found["model"]["encoder"]["n_heads"]), (&"opus".into(), &2.into()));
}

#[test]
fn the_page_has_only_the_selected_weights() {
    let trace = Trace::new(&engine(), "The teacher reads.", &TraceOptions::default()).unwrap();
    let filter = Filter { layers: Some(vec![1]), heads: Some(vec![0]), ..Filter::default() };
    let found = content(&page(&trace, &filter, "opus"));
    let kept = found["trace"]["attention"].as_array().unwrap();
    assert!(
        kept.len() == 3 && kept.iter().all(|own| own["layer"] == 1 && own["heads"] == serde_json::json!([0]))
    );
    assert_eq!(found["trace"]["vectors"], serde_json::json!([]));
}
