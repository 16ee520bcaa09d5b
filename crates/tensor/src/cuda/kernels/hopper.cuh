// Common beginning of the attention kernels for Hopper GPUs, after tiled.cuh: products by a warpgroup of four warps
// (`wgmma`, sm_90a alone), whose operands are read from swizzled tiles.
//
// A panel is a matrix of 64 columns in shared memory: rows of 128 bytes without padding, sixteen bytes at chunk c of row
// r stored at chunk c xor (r mod 8). It begins at a multiple of 1,024 bytes. A tile of D columns is D / 64 panels, one
// after the other. In a product of 64 × 64 a thread holds, of the sixteen rows of its warp, what it holds of 16 × 8 sums
// of `multiply_add`, eight times.

#define WARPGROUP 128

// Copies ROWS rows of D columns to a tile, asynchronously, by THREADS threads; rows from n_rows and columns from
// n_columns become 0.
template <int D, int ROWS, int THREADS>
__device__ __forceinline__ void stage_panels(bf16 *tile, Rows<const bf16> from, int n_rows, int n_columns) {
    constexpr int CHUNKS = D / 8, STEP = THREADS / CHUNKS;
    const int first = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
    const bf16 *source = from.at + chunk * 8;
    bf16 *panel = tile + chunk / 8 * ROWS * 64;
    const int last = chunk * 8 < n_columns ? n_rows : 0;
#pragma unroll
    for (int i = 0; i < ROWS; i += STEP) {
        const int row = first + i;
        if (ROWS % STEP != 0 && row >= ROWS) break;
        const bool real = row < last;
        copy_async(panel + row * 64 + (chunk % 8 ^ row % 8) * 8, real ? source + row * from.stride : from.at, real);
    }
}

// Waits for this thread's copies and makes them visible to products; other threads still need a barrier.
__device__ __forceinline__ void wait_panels() {
    wait_copies();
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Descriptor of a panel from row `at`, a multiple of 8: rows in groups of eight, 1,024 bytes apart.
__device__ __forceinline__ u64 panel_descriptor(const bf16 *at) {
    return u64((shared_address(at) & 0x3ffff) >> 4) | u64(64) << 16 | u64(64) << 32 | u64(1) << 62;
}
// The same panel sixteen columns on the right, and sixteen rows below.
#define NEXT_COLUMNS 2
#define NEXT_ROWS 128

// Sixteen rows of the warp, from `row` of a tile of ROWS rows, as left operands.
template <int D, int ROWS> __device__ __forceinline__ void load_panels(u32 (&out)[D / 16][4], const bf16 *tile, int row) {
    const int lane = threadIdx.x % WARP, own = row + lane % 16;
#pragma unroll
    for (int inner = 0; inner < D / 16; inner++) {
        const int chunk = inner % 4 * 2 + lane / 16;
        load_matrices(out[inner], tile + inner / 4 * ROWS * 64 + own * 64 + (chunk ^ own % 8) * 8);
    }
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all but the last PENDING groups of products are done.
template <int PENDING> __device__ __forceinline__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps uses of sums behind the wait before this.
template <int COUNT> __device__ __forceinline__ void settle(float (&sums)[COUNT][4]) {
#pragma unroll
    for (int i = 0; i < COUNT * 4; i++) asm volatile("" : "+f"(sums[i / 4][i % 4])::"memory");
}

#define SUMS_OF(I) "+f"(sums[I][0]), "+f"(sums[I][1]), "+f"(sums[I][2]), "+f"(sums[I][3])
#define ALL_SUMS SUMS_OF(0), SUMS_OF(1), SUMS_OF(2), SUMS_OF(3), SUMS_OF(4), SUMS_OF(5), SUMS_OF(6), SUMS_OF(7)
#define SUM_NAMES                                                                                                          \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,"  \
    "%31}"

// sums (= or +=) A·Bᵀ for 64 rows of A and of B, sixteen columns of each; sums are overwritten if `add` is 0.
__device__ __forceinline__ void product_of_panels(float (*sums)[4], u64 a, u64 b, int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " SUM_NAMES
                 ", %32, %33, p, 1, 1, 0, 0; }"
                 : ALL_SUMS
                 : "l"(a), "l"(b), "r"(add));
}
// The same for A in registers.
__device__ __forceinline__ void product_with_rows(float (*sums)[4], const u32 (&a)[4], u64 b, int add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " SUM_NAMES
                 ", {%32, %33, %34, %35}, %36, p, 1, 1, 0; }"
                 : ALL_SUMS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
// sums += A·B for 64 × 16 values of A in registers, sixteen rows and 64 columns of B.
__device__ __forceinline__ void product_with_columns(float (*sums)[4], const u32 (&a)[4], u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " SUM_NAMES ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : ALL_SUMS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
