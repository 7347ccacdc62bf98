/* Converts blocks of 8 bits (core/eight_bit.h) from and to floats. If an instruction set can look
 * up tables in registers, it finds there what differs by decade, in vectors; compilers need several
 * times as many instructions for the plain functions. Codes are the same, except for values that
 * are within rounding of the middle between two codes. */
#ifndef AC_BACKEND_CPU_EIGHT_BIT_H
#define AC_BACKEND_CPU_EIGHT_BIT_H

#include "core/eight_bit.h"

#if defined(__GNUC__) && defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__)
#include "backend/cpu/update/eight_bit_avx512.h"
#elif defined(__GNUC__) && defined(__AVX2__) && defined(__FMA__)
#include "backend/cpu/update/eight_bit_avx2.h"
#else

typedef struct eight_bit_tables {
  char none;
} eight_bit_tables;

static inline eight_bit_tables eight_bit_tables_of(bool is_signed) {
  (void)is_signed;
  return (eight_bit_tables){0};
}

enum { EIGHT_BIT_RUN = AC_EIGHT_BIT_BLOCK, EIGHT_BIT_STORED = AC_EIGHT_BIT_BLOCK };

typedef struct eight_bit_reader {
  const uint8_t *block;
} eight_bit_reader;

static inline eight_bit_reader eight_bit_begin(const eight_bit_tables *t, const uint8_t *block) {
  (void)t;
  return (eight_bit_reader){block};
}

static inline void eight_bit_load(const eight_bit_reader *r, int i, bool is_signed, float *values) {
  (void)i;
  ac_eight_bit_load(r->block, is_signed, values);
}

static inline void eight_bit_compare(eight_bit_reader *r, const float *values) {
  (void)r;
  (void)values;
}

typedef struct eight_bit_writer {
  uint8_t *block;
} eight_bit_writer;

static inline eight_bit_writer eight_bit_end_none(uint8_t *block) {
  return (eight_bit_writer){block};
}

static inline eight_bit_writer eight_bit_end(const eight_bit_reader *r, uint8_t *block) {
  (void)r;
  return (eight_bit_writer){block};
}

static inline void eight_bit_prepare(const eight_bit_writer *w, float values[AC_EIGHT_BIT_BLOCK]) {
  (void)w;
  (void)values;
}

static inline void eight_bit_store(const eight_bit_tables *t, const eight_bit_writer *w, int i,
                                   bool is_signed, const float *values) {
  (void)t;
  (void)i;
  ac_eight_bit_store(w->block, is_signed, values);
}

#endif

#endif
