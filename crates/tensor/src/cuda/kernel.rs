//! The crate's kernels: CUDA C++ sources in the binary, compiled by NVRTC for the GPU at first use and cached on disk.
//!
//! A file is compiled as a whole, after `prelude.cuh`, the first time one of its kernels is launched: this takes from a
//! tenth of a second to some seconds for attention, which has many variants. The machine code goes to the user's cache
//! folder under a name that depends on the source, the compiler and the GPU.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use cudarc::driver::{result, sys};
use cudarc::nvrtc;

use super::array::Array;
use super::device::{Cuda, describe};
use super::library::{self, device_error};
use super::profile::KernelFamily;
use crate::ops::dropout::DropoutMask;
use crate::{Error, Result};

const PRELUDE: &str = include_str!("kernels/prelude.cuh");
/// After the prelude: for files that begin with `attention_tiled` or `attention_hopper`, and for the latter alone.
const TILED: &str = include_str!("kernels/tiled.cuh");
const HOPPER: &str = include_str!("kernels/hopper.cuh");

/// Pairs of file name and text.
macro_rules! sources {
    ($($name:literal),* $(,)?) => { &[$(($name, include_str!(concat!("kernels/", $name, ".cu")))),*] };
}

/// All kernel files.
const SOURCES: &[(&str, &str)] = sources![
    "activation",
    "additive",
    "arrays",
    "attention_backward",
    "attention_backward_long",
    "attention_f32",
    "attention_forward",
    "attention_hopper_backward",
    "attention_hopper_forward",
    "attention_tiled_backward",
    "attention_tiled_forward",
    "best_tokens",
    "cached_attention",
    "column_sum",
    "copying",
    "cross_entropy",
    "dropout",
    "elementwise",
    "embedding",
    "masked_softmax",
    "norm",
    "optim",
    "r_drop",
    "recurrent",
    "reorder",
    "rotary",
    "scale_rows",
    "shape",
    "softmax",
    "step_input",
    "weighted_cross_entropy",
];

/// Compiled files and their functions.
#[derive(Debug)]
pub(super) struct Kernels {
    capability: (i32, i32),
    loaded: Mutex<Loaded>,
}

#[derive(Debug, Default)]
struct Loaded {
    modules: HashMap<&'static str, Module>,
    /// By file and kernel name.
    functions: HashMap<(&'static str, String), Function>,
}

/// A loaded file; it stays until the program ends.
#[derive(Debug, Clone, Copy)]
struct Module(sys::CUmodule);

#[derive(Debug, Clone, Copy)]
struct Function {
    handle: sys::CUfunction,
    /// Largest dynamic shared memory requested so far, in bytes.
    shared: usize,
}

/// One launch of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The file, `norm` for `kernels/norm.cu`.
    pub(crate) file: &'static str,
    /// The kernel.
    pub(crate) name: &'a str,
    /// Number of blocks.
    pub(crate) grid: [usize; 3],
    /// Threads per block.
    pub(crate) block: usize,
    /// Dynamic shared memory per block, in bytes.
    pub(crate) shared: usize,
    /// Family under which its time is counted.
    pub(crate) family: KernelFamily,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    Pointer(u64),
    U32(u32),
    U64(u64),
    F32(f32),
    Dropout(DropoutArgument),
}

/// `struct Dropout` of the prelude.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DropoutArgument {
    pub(crate) key_at: u64,
    pub(crate) key: [u32; 2],
    pub(crate) site: [u32; 2],
    pub(crate) threshold: u32,
    pub(crate) scale: f32,
}

impl From<&Array> for Argument {
    fn from(array: &Array) -> Self {
        Self::Pointer(array.pointer())
    }
}

impl From<Option<&Array>> for Argument {
    fn from(array: Option<&Array>) -> Self {
        Self::Pointer(array.map_or(0, Array::pointer))
    }
}

impl From<usize> for Argument {
    fn from(number: usize) -> Self {
        Self::U32(u32::try_from(number).expect("sizes on a GPU are below 2³²"))
    }
}

impl From<u32> for Argument {
    fn from(number: u32) -> Self {
        Self::U32(number)
    }
}

impl From<u64> for Argument {
    fn from(number: u64) -> Self {
        Self::U64(number)
    }
}

impl From<f32> for Argument {
    fn from(number: f32) -> Self {
        Self::F32(number)
    }
}

impl From<Option<DropoutMask>> for Argument {
    fn from(mask: Option<DropoutMask>) -> Self {
        Self::Dropout(
            mask.map_or(DropoutArgument { scale: 1.0, ..Default::default() }, DropoutMask::argument),
        )
    }
}

impl From<DropoutMask> for Argument {
    fn from(mask: DropoutMask) -> Self {
        Self::Dropout(mask.argument())
    }
}

/// A list of kernel arguments.
macro_rules! args {
    ($($argument:expr),* $(,)?) => { &[$($crate::cuda::Argument::from($argument)),*] };
}
pub(crate) use args;

impl Cuda {
    /// Queues a kernel. An error is recorded for [`Cuda::check`].
    pub(crate) fn launch(&self, launch: Launch<'_>, arguments: &[Argument]) {
        if self.has_failed() || launch.grid.contains(&0) {
            return;
        }
        self.bind();
        match self.kernels.function(&launch) {
            Ok(function) => self.timed(launch.family, || self.queue(function, &launch, arguments)),
            Err(error) => self.note_error(error),
        }
    }

    fn queue(&self, function: sys::CUfunction, launch: &Launch<'_>, arguments: &[Argument]) {
        let mut pointers: Vec<*mut c_void> = arguments.iter().map(Argument::address).collect();
        let [x, y, z] = launch.grid.map(|blocks| blocks as u32);
        // SAFETY: the arguments outlive the call, which copies them; their number and types match the kernel's.
        let answer = unsafe {
            let block = (launch.block as u32, 1, 1);
            result::launch_kernel(
                function,
                (x, y, z),
                block,
                launch.shared as u32,
                self.stream(),
                &mut pointers,
            )
        };
        self.note_result(answer, launch.name);
    }
}

impl Argument {
    /// Pointer to the value, as the driver takes it.
    fn address(&self) -> *mut c_void {
        match self {
            Self::Pointer(number) | Self::U64(number) => std::ptr::from_ref(number).cast_mut().cast(),
            Self::U32(number) => std::ptr::from_ref(number).cast_mut().cast(),
            Self::F32(number) => std::ptr::from_ref(number).cast_mut().cast(),
            Self::Dropout(dropout) => std::ptr::from_ref(dropout).cast_mut().cast(),
        }
    }
}

/// Dynamic shared memory that every kernel may use without a request, in bytes.
const FREE_SHARED: usize = 48 << 10;

impl Kernels {
    pub(super) fn new(capability: (i32, i32)) -> Self {
        Self { capability, loaded: Mutex::default() }
    }

    pub(super) fn capability(&self) -> (i32, i32) {
        self.capability
    }

    /// The function of a launch, compiled and loaded at its first use.
    fn function(&self, launch: &Launch<'_>) -> Result<sys::CUfunction> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (launch.file, launch.name.to_owned());
        if !loaded.functions.contains_key(&key) {
            let module = match loaded.modules.get(launch.file) {
                Some(module) => *module,
                None => *loaded.modules.entry(launch.file).or_insert(self.load(launch.file)?),
            };
            let name = CString::new(launch.name).expect("kernel names have no NUL");
            // SAFETY: the module stays loaded until the program ends.
            let handle = unsafe { result::module::get_function(module.0, name) }.map_err(|error| {
                failed(format!("kernel {} is not in {}.cu: {}", launch.name, launch.file, describe(error)))
            })?;
            loaded.functions.insert(key.clone(), Function { handle, shared: FREE_SHARED });
        }
        let function = loaded.functions.get_mut(&key).expect("just made");
        if launch.shared > function.shared {
            use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as SHARED;
            // SAFETY: the function is loaded.
            unsafe {
                result::function::set_function_attribute(
                    function.handle,
                    SHARED,
                    i32::try_from(launch.shared).unwrap_or(i32::MAX),
                )
            }
            .map_err(|error| {
                failed(format!(
                    "kernel {} cannot have {} bytes of shared memory: {}",
                    launch.name,
                    launch.shared,
                    describe(error)
                ))
            })?;
            function.shared = launch.shared;
        }
        Ok(function.handle)
    }

    /// Loads a file as machine code: from the cache, or compiled.
    fn load(&self, file: &'static str) -> Result<Module> {
        let text = source(file);
        let (major, minor) = self.capability;
        let mut hasher = DefaultHasher::new();
        (&text, library::compiler_version(), env!("CARGO_PKG_VERSION")).hash(&mut hasher);
        let path = cache_folder()
            .map(|folder| folder.join(format!("{file}-sm{major}{minor}-{:016x}.cubin", hasher.finish())));
        if let Some(image) = path.as_ref().and_then(|path| std::fs::read(path).ok())
            && let Ok(module) = module(&image)
        {
            return Ok(module);
        }
        let image = compile(file, &text, self.capability)?;
        if let Some(path) = path {
            write_cache(&path, &image);
        }
        module(&image).map_err(|error| failed(format!("{file}.cu does not load: {}", describe(error))))
    }
}

fn module(image: &[u8]) -> std::result::Result<Module, result::DriverError> {
    // SAFETY: the driver checks that the image is machine code for this GPU.
    unsafe { result::module::load_data(image.as_ptr().cast()) }.map(Module)
}

/// The text of a file, after the prelude.
fn source(file: &str) -> String {
    let (_, text) = SOURCES.iter().find(|(name, _)| *name == file).expect("launches name files of SOURCES");
    let is_hopper = file.starts_with("attention_hopper");
    let tiled = if is_hopper || file.starts_with("attention_tiled") { TILED } else { "" };
    let hopper = if is_hopper { HOPPER } else { "" };
    format!("{PRELUDE}\n{tiled}\n{hopper}\n#line 1 \"{file}.cu\"\n{text}")
}

/// Compiles for the GPU with NVRTC.
fn compile(file: &str, text: &str, (major, minor): (i32, i32)) -> Result<Vec<u8>> {
    let text = CString::new(text).expect("sources have no NUL");
    let name = CString::new(format!("{file}.cu")).expect("file names have no NUL");
    // Products by warpgroups exist for Hopper alone, and only under a name of their own.
    let variant = if (major, minor) == (9, 0) && file.starts_with("attention_hopper") { "a" } else { "" };
    let options = [format!("--gpu-architecture=sm_{major}{minor}{variant}"), "--std=c++17".into()];
    // SAFETY: the program is used only between its creation and destruction; buffers have the sizes that NVRTC reports.
    unsafe {
        let program = nvrtc::result::create_program(&text, Some(&name)).map_err(compiler_failed)?;
        if nvrtc::result::compile_program(program, &options).is_err() {
            let log = nvrtc::result::get_program_log(program).unwrap_or_default();
            let log: String = log.iter().map(|&byte| byte as u8 as char).collect();
            return device_error(
                format!("{file}.cu does not compile:\n{}", log.trim_end_matches('\0')),
                REPORT,
            );
        }
        let mut size = 0;
        nvrtc::sys::nvrtcGetCUBINSize(program, &raw mut size).result().map_err(compiler_failed)?;
        let mut image = vec![0_u8; size];
        nvrtc::sys::nvrtcGetCUBIN(program, image.as_mut_ptr().cast()).result().map_err(compiler_failed)?;
        nvrtc::result::destroy_program(program).map_err(compiler_failed)?;
        Ok(image)
    }
}

const REPORT: &str = "report this with the names of the GPU and the driver";

fn failed(what: String) -> Error {
    Error::Device { what, hint: REPORT }
}

#[allow(clippy::needless_pass_by_value)] // the shape that `map_err` wants
fn compiler_failed(error: nvrtc::result::NvrtcError) -> Error {
    failed(format!("NVRTC fails: {error:?}"))
}

/// Folder of compiled kernels: `$POLYHEAD_CACHE`, or `polyhead` in the user's cache folder.
fn cache_folder() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("POLYHEAD_CACHE").or_else(|| {
        let user = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")))?;
        Some(user.join("polyhead"))
    })
}

/// Writes a file under a temporary name and renames it. A cache that cannot be written only costs time.
fn write_cache(path: &std::path::Path, image: &[u8]) {
    let Some(folder) = path.parent() else { return };
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&temporary, image))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs the compiler, not a GPU; prints why it is skipped if there is none.
    #[test]
    fn every_kernel_compiles_for_old_and_new_gpus() {
        // SAFETY: loads the library by its usual names and calls nothing in it.
        if !unsafe { nvrtc::sys::is_culib_present() } {
            eprintln!("skipped: libnvrtc is not found");
            return;
        }
        for (file, _) in SOURCES {
            for capability in [(8, 0), (9, 0)] {
                let image =
                    compile(file, &source(file), capability).unwrap_or_else(|error| panic!("{error}"));
                assert!(image.starts_with(b"\x7fELF"), "{file}.cu did not compile to machine code");
            }
        }
    }

    #[test]
    fn a_file_that_does_not_compile_says_where() {
        // SAFETY: loads the library by its usual names and calls nothing in it.
        if !unsafe { nvrtc::sys::is_culib_present() } {
            eprintln!("skipped: libnvrtc is not found");
            return;
        }
        let error = compile("wrong", "#line 1 \"wrong.cu\"\nint f() { return g(); }", (9, 0)).unwrap_err();
        assert!(error.to_string().contains("wrong.cu(1)"), "{error}");
    }
}
