/* What comes before the source of an op of the caller's own (accrue/custom_op.h). Its names are a
 * promise (docs/cookbook/own-op.md), so it includes no other file: their names may change.
 *
 * Float operands that are stored as the plan says are `global ac_storage *`, read and written with
 * ac_load and ac_store; arithmetic is in float. */
#if defined(STORAGE_F16)
typedef half ac_storage;
float ac_load(const global ac_storage *p, size_t i) {
  return vload_half(i, p);
}
void ac_store(global ac_storage *p, size_t i, float v) {
#ifdef MARK_FLUSHED
  /* As common.h does: what is flushed to zero becomes -0, zero becomes +0. */
  const uint magnitude = as_uint(v) & 0x7fffffffu;
  if (magnitude <= 0x33000000u) v = magnitude ? -0.0f : 0.0f;
#endif
  vstore_half_rte(v, i, p);
}
#elif defined(STORAGE_BF16)
typedef ushort ac_storage;
float ac_load(const global ac_storage *p, size_t i) {
  return as_float((uint)p[i] << 16);
}
void ac_store(global ac_storage *p, size_t i, float v) {
  const uint bits = as_uint(v);
  p[i] = (ushort)((isnan(v) ? bits | 0x400000u : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#else
typedef float ac_storage;
float ac_load(const global ac_storage *p, size_t i) {
  return p[i];
}
void ac_store(global ac_storage *p, size_t i, float v) {
  p[i] = v;
}
#endif
/* Errors are then reported at the lines of the caller's source. */
#line 1
