/* rope: turns pairs of each head by angles of its position (ops/attention/rope.c). A turn is
 * counted in fractions of 2^64, and the product with a position kept to 2^-32, so that nothing is
 * rounded, however large the position. One work-item a pair of a position, for all its heads,
 * groups of GROUP; items after the pairs copy an element that does not turn. y may be x. Dtypes:
 * storage. */
#include "common.h"

#define PAIRS 64

/* How far pairs turn from one position to the next. */
typedef struct {
  ulong turn[PAIRS];
} turns;

/* (cosine, sine): of what is left when the nearest quarter turn is taken off, by polynomials fitted
 * to 2e-9. */
float2 find_angle(uint turned) {
  const uint quarters = (turned + (1u << 29)) >> 30;
  const float x = (float)(int)(turned - (quarters << 30)) * 1.46291807927e-9f; /* 2 pi 2^-32 */
  const float square = x * x;
  const float odd = (-1.949563524e-4f * square + 8.331978655e-3f) * square - 1.666665067e-1f;
  const float even = (2.443845059e-5f * square - 1.388736751e-3f) * square + 4.166664687e-2f;
  const float s = x * square * odd + x;
  const float c = square * square * even + (1.0f - 0.5f * square);
  const float2 along = quarters & 1 ? (float2)(-s, c) : (float2)(c, s);
  return quarters & 2 ? -along : along;
}

/* `pairs` of each row from pair `first` on, of half_width in all. */
kernel WORK_GROUP(GROUP, 1) void rope(const global storage *x, const global int *positions,
                                      global storage *y, turns table, long rows, long length,
                                      long heads, long width, int first, int pairs, int half_width,
                                      int rest, int interleaved, int backwards, uint offset) {
  const size_t item = element_id();
  const size_t columns = pairs + rest, row = quotient(item, columns);
  const int column = item - row * columns;
  if (row >= rows) return;
  size_t at = row * heads * width;
  if (column >= pairs) {
    at += 2 * half_width + column - pairs;
    for (long h = 0; h < heads; h++, at += width) store(y, at, load(x, at));
    return;
  }
  const uint position = offset + (positions ? (uint)positions[row] : (uint)modulo(row, length));
  float2 angle = find_angle((uint)(table.turn[column] * position >> 32));
  if (backwards) angle.y = -angle.y;
  const size_t pair = first + column, apart = interleaved ? 1 : half_width;
  at += interleaved ? 2 * pair : pair;
  for (long h = 0; h < heads; h++, at += width) {
    const float a = load(x, at), b = load(x, at + apart);
    store(y, at, a * angle.x - b * angle.y);
    store(y, at + apart, b * angle.x + a * angle.y);
  }
}
