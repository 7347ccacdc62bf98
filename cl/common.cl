/* What every kernel file begins with: storage and compute types, random numbers, reductions.
 *
 * Activations and weights are `storage`, read and written through load and store; arithmetic is in
 * float. Statistics, losses, parameter gradients and optimizer state are float whatever the storage
 * is. Compile with STORAGE_F16 or STORAGE_BF16 for 16-bit storage, with neither for float;
 * vload_half and vstore_half are core OpenCL and need no extension. MARK_FLUSHED makes stores to
 * f16 leave a trace of what they flush to zero, for numerics.cl to count.
 *
 * GROUP, 256 or 64, is the work-group size of kernels over independent elements; kernels over
 * columns take 32 x LANES, with as many items. Files are compiled without -cl-finite-math-only and
 * -cl-fast-relaxed-math: infinities and NaNs are meant. */

#if defined(STORAGE_F16)
typedef half storage;
float load(const global storage *p, size_t i) {
  return vload_half(i, p);
}
void store(global storage *p, size_t i, float v) {
#ifdef MARK_FLUSHED
  /* What is flushed to zero, at or below 2^-25, becomes -0; zero becomes +0. */
  const uint magnitude = as_uint(v) & 0x7fffffffu;
  if (magnitude <= 0x33000000u) v = as_float(magnitude ? 0x80000000u : 0);
#endif
  vstore_half_rte(v, i, p);
}
#elif defined(STORAGE_BF16)
typedef ushort storage;
float load(const global storage *p, size_t i) {
  return as_float((uint)p[i] << 16);
}
void store(global storage *p, size_t i, float v) {
  uint bits = as_uint(v);
  /* To nearest even; a NaN stays one. */
  p[i] = isnan(v) ? (ushort)(bits >> 16 | 64) : (ushort)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#else
typedef float storage;
float load(const global storage *p, size_t i) {
  return p[i];
}
void store(global storage *p, size_t i, float v) {
  p[i] = v;
}
#endif

#define LANES (GROUP / 32)
#define WORK_GROUP(x, y) __attribute__((reqd_work_group_size(x, y, 1)))

/* i % n, in 32 bits where that is enough: 64-bit division is slow on most devices. */
size_t modulo(size_t i, size_t n) {
  return (i | n) >> 32 ? i % n : (size_t)((uint)i % (uint)n);
}

size_t quotient(size_t i, size_t n) {
  return (i | n) >> 32 ? i / n : (size_t)((uint)i / (uint)n);
}

/* Philox 4x32-10, bit for bit that of src/core/random.h. */
uint4 philox(uint2 key, uint4 c) {
#pragma unroll 1
  for (int round = 0; round < 10; round++) {
    uint n0 = mul_hi(0xCD9E8D57u, c.z) ^ c.y ^ key.x, n2 = mul_hi(0xD2511F53u, c.x) ^ c.w ^ key.y;
    c = (uint4)(n0, 0xCD9E8D57u * c.z, n2, 0xD2511F53u * c.x);
    key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
  }
  return c;
}

/* Reductions over a work-group of `size` items, a power of two, in a fixed order. `scratch` holds
 * `size` elements and may be used again at once. Every item must call them, and every item gets the
 * result. */
float group_sum(float v, local float *scratch, int item, int size) {
  scratch[item] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = size / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) scratch[item] += scratch[item + half_size];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float sum = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return sum;
}

float group_max(float v, local float *scratch, int item, int size) {
  scratch[item] = v;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = size / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) scratch[item] = fmax(scratch[item], scratch[item + half_size]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float largest = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  return largest;
}
