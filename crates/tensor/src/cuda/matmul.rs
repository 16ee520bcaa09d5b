//! Matrix products with cuBLASLt: out = factor · op(a)·op(b) (+ out) (+ bias), optionally followed by ReLU.
//!
//! Everything here is row-major; cuBLASLt is column-major, where the same memory is the transposed matrix: outᵀ =
//! op(b)ᵀ·op(a)ᵀ, so the operands are exchanged. Plans (descriptors and the algorithm) are created once per shape. The
//! algorithm is the first that cuBLASLt proposes: the same on every run. Sums split over k are added in a workspace in
//! a fixed order, never in place.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::cublaslt::{result, sys};

use super::array::{Array, ElementType};
use super::device::Cuda;
use super::profile::KernelFamily;
use crate::Error;
use crate::device::Math;
use crate::gemm::Output;

/// A matrix in memory, row-major.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operand<'a> {
    pub(crate) array: &'a Array,
    /// Rows in memory.
    pub(crate) rows: usize,
    /// Columns in memory.
    pub(crate) columns: usize,
    /// True if the operand is its transpose.
    pub(crate) transposed: bool,
}

impl<'a> Operand<'a> {
    pub(crate) fn new(array: &'a Array, rows: usize, columns: usize) -> Self {
        assert!(array.len() == rows * columns, "{} values for {rows} × {columns}", array.len());
        Self { array, rows, columns, transposed: false }
    }

    /// `batch` matrices of rows × columns, one after the other.
    pub(crate) fn batched(array: &'a Array, batch: usize, rows: usize, columns: usize) -> Self {
        assert!(
            array.len() == batch * rows * columns,
            "{} values for {batch} × {rows} × {columns}",
            array.len()
        );
        Self { array, rows, columns, transposed: false }
    }

    pub(crate) fn t(self) -> Self {
        Self { transposed: !self.transposed, ..self }
    }

    /// Rows and columns of the operand.
    fn shape(&self) -> [usize; 2] {
        if self.transposed { [self.columns, self.rows] } else { [self.rows, self.columns] }
    }
}

/// Function applied to each element of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) enum Epilogue {
    #[default]
    None,
    Relu,
}

/// A product to compute.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Product<'a> {
    pub(crate) a: Operand<'a>,
    pub(crate) b: Operand<'a>,
    /// rows of op(a) × columns of op(b).
    pub(crate) out: &'a Array,
    pub(crate) output: Output,
    /// With `Accumulate`, the array to add to, if it is not `out`.
    pub(crate) before: Option<&'a Array>,
    /// Added to every row; has the type of `out`.
    pub(crate) bias: Option<&'a Array>,
    pub(crate) epilogue: Epilogue,
    /// A scalar on the GPU by which the product is multiplied. Default: 1.
    pub(crate) factor: Option<&'a Array>,
    /// Number of products of the same shape, whose matrices follow each other. Default: 1.
    pub(crate) batch: usize,
}

impl<'a> Product<'a> {
    /// out = a·b.
    pub(crate) fn new(a: Operand<'a>, b: Operand<'a>, out: &'a Array) -> Self {
        Self {
            a,
            b,
            out,
            output: Output::Overwrite,
            before: None,
            bias: None,
            epilogue: Epilogue::None,
            factor: None,
            batch: 1,
        }
    }

    fn key(&self) -> PlanKey {
        PlanKey {
            sides: [self.a, self.b].map(|side| [side.rows, side.columns, usize::from(side.transposed)]),
            dtypes: [self.a.array.dtype(), self.b.array.dtype(), self.out.dtype()],
            accumulates: self.output == Output::Accumulate,
            is_biased: self.bias.is_some(),
            epilogue: self.epilogue,
            is_scaled: self.factor.is_some(),
            batch: self.batch,
            alignment: self.alignment(),
        }
    }

    /// Common alignment of all arrays if it is below that of a vector load, else 0.
    fn alignment(&self) -> u32 {
        let arrays = [Some(self.a.array), Some(self.b.array), Some(self.out), self.before];
        let bits = arrays.into_iter().flatten().fold(VECTOR, |bits, array| bits | array.pointer());
        let common = 1 << bits.trailing_zeros();
        if common < VECTOR { common as u32 } else { 0 }
    }
}

/// Properties that a plan depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PlanKey {
    sides: [[usize; 3]; 2],
    dtypes: [ElementType; 3],
    accumulates: bool,
    is_biased: bool,
    epilogue: Epilogue,
    is_scaled: bool,
    batch: usize,
    alignment: u32,
}

/// Bytes of the widest load. Memory of arrays begins at multiples of it, but the part of one may not.
const VECTOR: u64 = 16;

/// Descriptors and algorithm of one shape. They live until the program ends.
#[derive(Clone, Copy)]
struct CublasPlan {
    operation: sys::cublasLtMatmulDesc_t,
    a: sys::cublasLtMatrixLayout_t,
    b: sys::cublasLtMatrixLayout_t,
    out: sys::cublasLtMatrixLayout_t,
    algorithm: sys::cublasLtMatmulAlgo_t,
}

/// The library handle, its workspace and all plans of a GPU.
#[derive(Default)]
pub(super) struct CublasProducts {
    state: Mutex<Option<CublasState>>,
}

impl std::fmt::Debug for CublasProducts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Products")
    }
}

struct CublasState {
    handle: sys::cublasLtHandle_t,
    /// One for the main stream, one for the branch.
    workspaces: [u64; 2],
    /// Address of 0 and 1 on the GPU, for products with a factor.
    constants: u64,
    plans: HashMap<PlanKey, CublasPlan>,
}

/// Size recommended by NVIDIA for Hopper.
const WORKSPACE: usize = 32 << 20;

type CublasResult<T> = Result<T, result::CublasError>;

impl Cuda {
    /// Queues a product. An error is recorded for [`Cuda::check`].
    ///
    /// # Panics
    /// If the shapes do not fit together.
    pub(crate) fn multiply(self: &Arc<Self>, product: &Product<'_>) {
        let ([rows, inner], [inner_b, columns]) = (product.a.shape(), product.b.shape());
        assert!(
            inner == inner_b && product.out.len() == product.batch * rows * columns,
            "a product of {product:?}"
        );
        if self.has_failed() || product.out.is_empty() {
            return;
        }
        if inner == 0 {
            // An empty sum.
            return if product.output == Output::Overwrite {
                product.out.clear();
            };
        }
        self.bind();
        let mut guard = self.products.state.lock().unwrap_or_else(PoisonError::into_inner);
        if guard.is_none() {
            *guard = self.persistent(|| CublasState::new(self));
        }
        let Some(state) = guard.as_mut() else { return };
        let key = product.key();
        let plan = match state.plans.get(&key) {
            Some(plan) => Ok(*plan),
            None => CublasPlan::new(state.handle, product, self.math()).inspect(|plan| {
                state.plans.insert(key, *plan);
            }),
        };
        let state = &*state;
        let stream_and_workspace =
            (self.stream().cast(), state.workspaces[usize::from(self.branch.is_taken())]);
        let mut answer = Ok(());
        match plan {
            Ok(plan) => {
                self.timed(KernelFamily::Gemm, || answer = plan.run(state, product, stream_and_workspace));
            }
            Err(error) => answer = Err(error),
        }
        if let Err(error) = answer {
            self.note_error(product_error(error, product));
        }
    }
}

fn product_error(error: result::CublasError, product: &Product<'_>) -> Error {
    let [[rows, inner], [_, columns]] = [product.a.shape(), product.b.shape()];
    Error::Device {
        what: format!("cuBLASLt cannot multiply {rows} × {inner} with {inner} × {columns}: {:?}", error.0),
        hint: "report this with the names of the GPU and the driver",
    }
}

impl CublasState {
    fn new(cuda: &Arc<Cuda>) -> Option<Self> {
        let handle = result::create_handle()
            .map_err(|error| {
                cuda.note_error(Error::Device {
                    what: format!("cuBLASLt does not start: {:?}", error.0),
                    hint: "check that the library's version fits the driver",
                });
            })
            .ok()?;
        // Both live until the program ends.
        let workspaces = [(); 2].map(|()| {
            std::mem::ManuallyDrop::new(Array::new(cuda, ElementType::F32, WORKSPACE / 4)).pointer()
        });
        let constants = std::mem::ManuallyDrop::new(Array::constant(cuda, &[0.0_f32, 1.0]));
        cuda.check().ok()?;
        let constants = constants.pointer();
        Some(Self { handle, workspaces, constants, plans: HashMap::new() })
    }
}

/// Sets an attribute of a descriptor to a plain value.
///
/// # Safety
/// The attribute has the type `T`, and the descriptor is alive.
unsafe fn set<T>(
    operation: sys::cublasLtMatmulDesc_t,
    attribute: sys::cublasLtMatmulDescAttributes_t,
    value: &T,
) -> CublasResult<()> {
    // SAFETY: the caller guarantees that the attribute has this type.
    unsafe {
        result::set_matmul_desc_attribute(
            operation,
            attribute,
            std::ptr::from_ref(value).cast(),
            size_of::<T>(),
        )
    }
}

fn cuda_type(dtype: ElementType) -> sys::cudaDataType {
    match dtype {
        ElementType::F32 => sys::cudaDataType::CUDA_R_32F,
        ElementType::Bf16 => sys::cudaDataType::CUDA_R_16BF,
        ElementType::U32 => sys::cudaDataType::CUDA_R_32U,
    }
}

/// The layout of an operand in cuBLASLt's column-major view: columns × rows, contiguous.
fn layout(array: &Array, [batch, rows, columns]: [usize; 3]) -> CublasResult<sys::cublasLtMatrixLayout_t> {
    use sys::cublasLtMatrixLayoutAttribute_t as L;
    let layout = result::create_matrix_layout(
        cuda_type(array.dtype()),
        columns as u64,
        rows as u64,
        columns.cast_signed() as i64,
    )?;
    if batch > 1 {
        let (count, stride) =
            (i32::try_from(batch).unwrap_or(i32::MAX), (rows * columns).cast_signed() as i64);
        // SAFETY: the layout is alive, and the attributes have the types that the library's reference names.
        unsafe {
            let (count, stride) = (std::ptr::from_ref(&count).cast(), std::ptr::from_ref(&stride).cast());
            result::set_matrix_layout_attribute(
                layout,
                L::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                count,
                size_of::<i32>(),
            )?;
            result::set_matrix_layout_attribute(
                layout,
                L::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                stride,
                size_of::<i64>(),
            )?;
        }
    }
    Ok(layout)
}

impl CublasPlan {
    fn new(handle: sys::cublasLtHandle_t, product: &Product<'_>, math: Math) -> CublasResult<Self> {
        use sys::cublasLtMatmulDescAttributes_t as D;
        let compute = match (math, product.a.array.dtype()) {
            (Math::Tf32, ElementType::F32) => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let operation = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)?;
        let turn = |side: &Operand<'_>| i32::from(side.transposed);
        // SAFETY: the descriptor is alive, and each attribute gets the type that the library's reference names.
        unsafe {
            // The operands are exchanged: see the top of the file.
            set(operation, D::CUBLASLT_MATMUL_DESC_TRANSA, &turn(&product.b))?;
            set(operation, D::CUBLASLT_MATMUL_DESC_TRANSB, &turn(&product.a))?;
            set(operation, D::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue(product))?;
            if product.factor.is_some() {
                let mode = sys::cublasLtPointerMode_t::CUBLASLT_POINTER_MODE_DEVICE;
                set(operation, D::CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode)?;
            }
        }
        let [rows, columns] = [product.a.shape()[0], product.b.shape()[1]];
        let side = |side: &Operand<'_>| layout(side.array, [product.batch, side.rows, side.columns]);
        let (a, b) = (side(&product.a)?, side(&product.b)?);
        let out = layout(product.out, [product.batch, rows, columns])?;
        let algorithm = choose(handle, operation, [b, a, out], product.alignment())?;
        Ok(Self { operation, a, b, out, algorithm })
    }

    fn run(
        &self,
        state: &CublasState,
        product: &Product<'_>,
        (stream, workspace): (sys::cudaStream_t, u64),
    ) -> CublasResult<()> {
        let (zero, one) = (0.0_f32, 1.0_f32);
        let accumulates = product.output == Output::Accumulate;
        let beta = if accumulates { &one } else { &zero };
        let at = |array: &Array| array.pointer() as *const c_void;
        let (alpha, beta): (*const c_void, *const c_void) = match product.factor {
            None => (std::ptr::from_ref(&one).cast(), std::ptr::from_ref(beta).cast()),
            Some(factor) => {
                (at(factor), (state.constants + if accumulates { 4 } else { 0 }) as *const c_void)
            }
        };
        // SAFETY: the arrays have the sizes of the plan; the bias is set under the lock that the caller holds.
        unsafe {
            if let Some(bias) = product.bias {
                let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
                set(self.operation, attribute, &bias.pointer())?;
            }
            result::matmul(
                state.handle,
                self.operation,
                alpha,
                beta,
                at(product.b.array),
                self.b,
                at(product.a.array),
                self.a,
                at(product.before.unwrap_or(product.out)),
                self.out,
                product.out.pointer() as *mut c_void,
                self.out,
                &raw const self.algorithm,
                workspace as *mut c_void,
                WORKSPACE,
                stream,
            )
        }
    }
}

fn epilogue(product: &Product<'_>) -> sys::cublasLtEpilogue_t {
    use sys::cublasLtEpilogue_t as E;
    match (product.epilogue, product.bias.is_some()) {
        (Epilogue::None, false) => E::CUBLASLT_EPILOGUE_DEFAULT,
        (Epilogue::None, true) => E::CUBLASLT_EPILOGUE_BIAS,
        (Epilogue::Relu, false) => E::CUBLASLT_EPILOGUE_RELU,
        (Epilogue::Relu, true) => E::CUBLASLT_EPILOGUE_RELU_BIAS,
    }
}

/// The algorithm that the library ranks first, among those that add in a fixed order.
fn choose(
    handle: sys::cublasLtHandle_t,
    operation: sys::cublasLtMatmulDesc_t,
    [a, b, out]: [sys::cublasLtMatrixLayout_t; 3],
    alignment: u32,
) -> CublasResult<sys::cublasLtMatmulAlgo_t> {
    use sys::cublasLtMatmulPreferenceAttributes_t as P;
    use sys::cublasLtReductionScheme_t as R;
    let preference = result::create_matmul_pref()?;
    let schemes =
        R::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32 | R::CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE as u32;
    // SAFETY: attributes have the types that the library's reference names; all handles are alive.
    unsafe {
        let workspace = std::ptr::from_ref(&WORKSPACE).cast();
        result::set_matmul_pref_attribute(
            preference,
            P::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            workspace,
            size_of::<usize>(),
        )?;
        result::set_matmul_pref_attribute(
            preference,
            P::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            std::ptr::from_ref(&schemes).cast(),
            size_of::<u32>(),
        )?;
        if alignment > 0 {
            let matrices = [
                P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                P::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
            ];
            for matrix in matrices {
                let bytes = std::ptr::from_ref(&alignment).cast();
                result::set_matmul_pref_attribute(preference, matrix, bytes, size_of::<u32>())?;
            }
        }
        let found = result::get_matmul_algo_heuristic(handle, operation, a, b, out, out, preference);
        result::destroy_matmul_pref(preference)?;
        Ok(found?.algo)
    }
}
