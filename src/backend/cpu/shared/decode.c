#include "backend/cpu/shared/decode.h"

#include "core/blocks.h"
#include "core/half.h"

#include <string.h>

#if defined(__F16C__) || defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

/* One for each 32 elements: without branches where the CPU converts it. */
static inline float half_at(const uint8_t *at) {
  uint16_t half;
  memcpy(&half, at, sizeof half);
#ifdef __F16C__
  return _cvtsh_ss(half);
#elif defined(__aarch64__)
  __fp16 number;
  memcpy(&number, &half, sizeof number);
  return number;
#else
  return ac_f16_to_float(half);
#endif
}

/* Compilers turn loops from bytes to floats into short vectors, so these are written out. */
#if defined(__AVX512F__) || defined(__AVX2__)
#ifdef __AVX512F__
enum { LANES = 16 };
typedef __m512 floats;
typedef __m512i integers;

static inline integers of_signs(const void *q) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(q));
}

static inline integers of_bytes(const void *q) {
  return _mm512_cvtepu8_epi32(_mm_loadu_si128(q));
}

static inline floats of_integers(integers q) {
  return _mm512_cvtepi32_ps(q);
}

static inline integers lower_half(integers q) {
  return _mm512_and_si512(q, _mm512_set1_epi32(15));
}

static inline integers upper_half(integers q) {
  return _mm512_srli_epi32(q, 4);
}
#else
enum { LANES = 8 };
typedef __m256 floats;
typedef __m256i integers;

static inline integers of_signs(const void *q) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(q));
}

static inline integers of_bytes(const void *q) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(q));
}

static inline floats of_integers(integers q) {
  return _mm256_cvtepi32_ps(q);
}

static inline integers lower_half(integers q) {
  return _mm256_and_si256(q, _mm256_set1_epi32(15));
}

static inline integers upper_half(integers q) {
  return _mm256_srli_epi32(q, 4);
}
#endif

static inline void put(float *y, floats x) {
  memcpy(y, &x, sizeof x);
}

/* y[i] = d q[i] */
static inline void scale_signed(const int8_t *q, float d, float *y) {
  for (int i = 0; i < 32; i += LANES) put(y + i, of_integers(of_signs(q + i)) * d);
}

/* Halves of 16 bytes: y[i] = d (q[i] - less) + m, first those of the low ones. */
static inline void scale_halves(const uint8_t *q, float less, float d, float m, float *y) {
  for (int i = 0; i < 16; i += LANES) {
    const integers x = of_bytes(q + i);
    put(y + i, (of_integers(lower_half(x)) - less) * d + m);
    put(y + 16 + i, (of_integers(upper_half(x)) - less) * d + m);
  }
}
#else
static inline void scale_signed(const int8_t *q, float d, float *y) {
#pragma omp simd
  for (int i = 0; i < 32; i++) y[i] = d * (float)q[i];
}

static inline void scale_halves(const uint8_t *q, float less, float d, float m, float *y) {
#pragma omp simd
  for (int i = 0; i < 16; i++) y[i] = d * ((float)(q[i] & 15) - less) + m;
#pragma omp simd
  for (int i = 0; i < 16; i++) y[i + 16] = d * ((float)(q[i] >> 4) - less) + m;
}
#endif

static void decode_q8_0(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 34, y += 32)
    scale_signed((const int8_t *)x + 2, half_at(x), y);
}

static void decode_q4_0(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 18, y += 32) scale_halves(x + 2, 8, half_at(x), 0, y);
}

static void decode_q4_1(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 20, y += 32)
    scale_halves(x + 4, 0, half_at(x), half_at(x + 2), y);
}

#if defined(__AVX2__) && !defined(__AVX512F__)
/* Eight of sixteen values by codes below 16: of the lower or the upper eight. */
static inline __m256 chosen(__m256i code, __m256 lower, __m256 upper) {
  const __m256 is_upper = _mm256_castsi256_ps(_mm256_slli_epi32(code, 28));
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(lower, code),
                          _mm256_permutevar8x32_ps(upper, code), is_upper);
}

static inline void choose_halves(const uint8_t *q, const float *values, float *y) {
  const __m256 lower = _mm256_loadu_ps(values), upper = _mm256_loadu_ps(values + 8);
  for (int i = 0; i < 32; i += 8) {
    const __m256i x = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(q + i)));
    _mm256_storeu_ps(y + i, chosen(_mm256_and_si256(x, _mm256_set1_epi32(15)), lower, upper));
    _mm256_storeu_ps(y + 32 + i, chosen(_mm256_srli_epi32(x, 4), lower, upper));
  }
}
#else
static inline void choose_halves(const uint8_t *q, const float *values, float *y) {
#pragma omp simd
  for (int i = 0; i < 32; i++) y[i] = values[q[i] & 15];
#pragma omp simd
  for (int i = 0; i < 32; i++) y[i + 32] = values[q[i] >> 4];
}
#endif

static void decode_nf4(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 36, y += 64) {
    float d, values[16];
    memcpy(&d, x, sizeof d);
    for (int i = 0; i < 16; i++) values[i] = d * ac_nf4_values[i];
    choose_halves(x + 4, values, y);
  }
}

void ac_cpu_decode(ac_blocks blocks, const void *x, int64_t count, float *y) {
  switch (blocks) {
  case AC_BLOCKS_Q8_0:
    decode_q8_0(x, count / 32, y);
    break;
  case AC_BLOCKS_Q4_0:
    decode_q4_0(x, count / 32, y);
    break;
  case AC_BLOCKS_Q4_1:
    decode_q4_1(x, count / 32, y);
    break;
  case AC_BLOCKS_NF4:
    decode_nf4(x, count / 64, y);
    break;
  default:
    break;
  }
}

void ac_cpu_decode_from(ac_blocks blocks, const void *x, int64_t first, int64_t count, float *y) {
  enum { MOST = 64 };
  const int64_t size = ac_blocks_format(blocks)->elements, bytes = ac_blocks_format(blocks)->bytes;
  float block[MOST];
  while (count > 0) {
    const uint8_t *at = (const uint8_t *)x + first / size * bytes;
    const int64_t skipped = first % size;
    int64_t piece = count / size * size;
    if (!skipped && piece) {
      ac_cpu_decode(blocks, at, piece, y);
    } else {
      piece = ac_smaller(size - skipped, count);
      ac_cpu_decode(blocks, at, size, block);
      memcpy(y, block + skipped, (size_t)piece * sizeof *y);
    }
    first += piece;
    count -= piece;
    y += piece;
  }
}
