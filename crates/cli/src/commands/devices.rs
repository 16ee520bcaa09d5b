//! `polyhead devices`: the CPU and the GPUs that models can run on, and why a GPU cannot be used.

use anyhow::Result;
use clap::Args;
use polyhead_tensor::Device;
use polyhead_tensor::device::GpuInfo;
use polyhead_tensor::isa::Isa;
use polyhead_train::memory::available;
use serde::Serialize;

use crate::output_format::DocumentFormat;
use crate::report::{bytes, counted, print_json, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead devices
  polyhead devices --format json

The first column is the name that --device and train.device take. Exit code 0 also without a GPU: the CPU can always be used.";

/// Options of `polyhead devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Devices {
    #[command(flatten)]
    format: DocumentFormat,
}

/// All devices of the machine.
#[derive(Serialize)]
struct DeviceList {
    #[serde(rename = "processor")]
    cpu: CpuDescription,
    #[serde(rename = "cards")]
    gpus: Vec<GpuDescription>,
    /// The reason why there is no GPU.
    #[serde(rename = "no_card")]
    no_gpu: Option<DeviceProblem>,
}

#[derive(Serialize)]
struct CpuDescription {
    name: String,
    instructions: &'static str,
    threads: usize,
    free_bytes: Option<usize>,
}

#[derive(Serialize)]
struct GpuDescription {
    name: String,
    model: String,
    memory_bytes: usize,
    free_bytes: Option<usize>,
    capability: String,
    driver_cuda: String,
    #[serde(rename = "obstacle")]
    problem: Option<DeviceProblem>,
}

/// The reason why a GPU cannot be used, with a hint.
#[derive(Serialize)]
struct DeviceProblem {
    what: String,
    hint: &'static str,
}

impl From<&polyhead_tensor::Error> for DeviceProblem {
    fn from(error: &polyhead_tensor::Error) -> Self {
        Self { what: error.to_string(), hint: error.hint() }
    }
}

impl From<GpuInfo> for GpuDescription {
    fn from(gpu: GpuInfo) -> Self {
        let (major, minor) = gpu.capability;
        Self {
            name: gpu.name,
            model: gpu.model,
            memory_bytes: gpu.memory,
            free_bytes: gpu.free,
            capability: format!("{major}.{minor}"),
            driver_cuda: gpu.driver,
            problem: gpu.obstacle.as_ref().map(DeviceProblem::from),
        }
    }
}

impl Devices {
    pub(crate) fn run(self) -> Result<()> {
        let (gpus, no_gpu) = match Device::gpus() {
            Ok(gpus) if gpus.is_empty() => {
                let hint = "does nvidia-smi list a GPU on this system?";
                (Vec::new(), Some(DeviceProblem { what: "the driver finds no GPU".into(), hint }))
            }
            Ok(gpus) => (gpus.into_iter().map(GpuDescription::from).collect(), None),
            Err(error) => (Vec::new(), Some(DeviceProblem::from(&error))),
        };
        let cpu = CpuDescription {
            name: Device::Cpu.name(),
            instructions: Isa::best().name(),
            threads: rayon::current_num_threads(),
            free_bytes: available(),
        };
        let list = DeviceList { cpu, gpus, no_gpu };
        if self.format.is_json() { print_json(&list) } else { print_text(&text(&list)) }
    }
}

fn text(list: &DeviceList) -> String {
    let CpuDescription { name, instructions, threads, free_bytes } = &list.cpu;
    let free = |bytes_free: Option<usize>| {
        bytes_free.map_or(String::new(), |free| format!(", {} free", bytes(free as u64)))
    };
    let mut text = format!(
        "{name}     CPU: {}, {instructions}{}\n",
        counted(*threads as u64, "thread"),
        free(*free_bytes)
    );
    for gpu in &list.gpus {
        text += &format!(
            "{}  {}: {}{}, compute capability {}, driver for CUDA {}\n",
            gpu.name,
            gpu.model,
            bytes(gpu.memory_bytes as u64),
            free(gpu.free_bytes),
            gpu.capability,
            gpu.driver_cuda
        );
        text += &problem_lines(gpu.problem.as_ref(), "cannot be used");
    }
    text + &problem_lines(list.no_gpu.as_ref(), "no GPU")
}

/// The problem and its hint, indented.
fn problem_lines(problem: Option<&DeviceProblem>, begin: &str) -> String {
    problem.map_or(String::new(), |DeviceProblem { what, hint }| {
        format!("        {begin}: {what}\n        hint: {hint}\n")
    })
}
