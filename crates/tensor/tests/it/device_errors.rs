//! Errors when a GPU cannot be used, tested with a stub driver that has a version and one GPU.
//!
//! Libraries are looked up when a program starts, so each case runs this program again, with the stub on its path.

use std::path::Path;
use std::process::Command;

use polyhead_tensor::{Device, Math};

/// The functions of libcuda that are called before a GPU is opened.
const STAND_IN: &str = r#"
#include <stdlib.h>
#include <string.h>
static int set(const char *name, int usual) { const char *text = getenv(name); return text ? atoi(text) : usual; }
int cuDriverGetVersion(int *version) { *version = set("STAND_IN_VERSION", 13000); return 0; }
int cuInit(unsigned flags) { return set("STAND_IN_INIT", 0); }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int len, int device) { strncpy(name, "Old 10", len); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1 << 30; return 0; }
int cuDeviceGetAttribute(int *value, int which, int device) {
    *value = which == 75 ? set("STAND_IN_MAJOR", 9) : which == 76 ? 0 : 16;
    return 0;
}
int cuGetErrorString(int error, const char **text) { *text = "it is broken"; return 0; }
"#;

/// Builds the stub in a folder; returns false without a C compiler.
fn stand_in(folder: &Path) -> bool {
    let source = folder.join("cuda.c");
    std::fs::write(&source, STAND_IN).unwrap();
    let library = folder.join("libcuda.so.1");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&library).arg(&source).status();
    let is_built = built.is_ok_and(|status| status.success());
    is_built && std::fs::copy(&library, folder.join("libcuda.so")).is_ok()
}

/// Output of the program with the given environment.
fn said(folder: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["device_errors::prints_the_error_of_opening", "--exact", "--ignored", "--nocapture"]);
    command.env("LD_LIBRARY_PATH", folder).envs(variables.iter().copied());
    String::from_utf8(command.output().unwrap().stdout).unwrap()
}

/// Environment of the stub, and the expected texts.
type Case<'a> = (&'a [(&'a str, &'a str)], [&'a str; 2]);

#[test]
fn every_error_has_a_hint() {
    let folder = std::env::temp_dir().join(format!("polyhead-stand-in-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    if !stand_in(&folder) {
        eprintln!("skipped: no C compiler");
        return;
    }
    let cases: [Case<'_>; 5] = [
        (
            &[("STAND_IN_VERSION", "12040")],
            ["the NVIDIA driver supports CUDA 12.4, expected 13.0", "newer NVIDIA driver"],
        ),
        (&[("STAND_IN_INIT", "3")], ["the NVIDIA driver does not start: it is broken", "nvidia-smi"]),
        (&[("STAND_IN_INIT", "100")], ["the NVIDIA driver finds no GPU", "nvidia-smi"]),
        (&[("STAND_IN_MAJOR", "7")], ["Old 10 has compute capability 7.0, expected 8.0", "Ampere"]),
        (&[("STAND_IN_GPU", "cuda:5")], ["there is no GPU 5, expected 0 to 0", "polyhead devices"]),
    ];
    for (variables, expected) in cases {
        let text = said(&folder, variables);
        assert!(
            expected.iter().all(|part| text.contains(part)),
            "{variables:?}: {text}, expected {expected:?}"
        );
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Not a test of its own: its output is read by the test above.
#[test]
#[ignore = "run by every_error_has_a_hint"]
fn prints_the_error_of_opening() {
    let name = std::env::var("STAND_IN_GPU").unwrap_or_else(|_| "cuda".into());
    let error = Device::open(&name, Math::Bf16).unwrap_err();
    println!("{error}\nhint: {}", error.hint());
}
