/* resize2d: element (i, j) of a plane is the sum, over the pixels around its position, of their
 * weights along both axes (ops/convolution/resize2d.h). Gradient: a pixel goes through the results
 * that may be made of it, in their order, and adds each by its weight; of those at an edge, also
 * where the neighbour lies beyond. One work-item an element of y or dx, groups of GROUP. Dtypes:
 * storage. */
#include "common.h"

#define NEAREST 0
#define BILINEAR 1
#define BICUBIC 2

typedef struct {
  int kind, align;
  float scale;
  int image, result; /* pixels */
} axis;

/* Keys' kernel for a = -3/4, at this distance. */
float cubic(float d) {
  const float a = -0.75f;
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

int taps(int kind) {
  return kind == BICUBIC ? 4 : kind == BILINEAR ? 2 : 1;
}

/* The position of result i: the pixel before it, and the distance from that. */
int position(axis x, int i, float *t) {
  const float centre = x.align ? x.scale * i : x.scale * (i + 0.5f) - 0.5f;
  const float s = x.kind == NEAREST    ? x.scale * i
                  : x.kind == BILINEAR ? fmax(centre, 0.0f)
                                       : centre;
  const int before = min((int)floor(s), x.image - 1);
  *t = fmin(s - before, 1.0f);
  return before;
}

int pixel(axis x, int before, int k) {
  return clamp(before - (x.kind == BICUBIC) + k, 0, x.image - 1);
}

float weight(int kind, float t, int k) {
  return kind == NEAREST ? 1 : kind == BILINEAR ? (k ? t : 1 - t) : cubic(fabs(t + 1 - k));
}

/* Of result i, for pixel h. */
float weight_of(axis x, int i, int h) {
  float t, sum = 0;
  const int before = position(x, i, &t);
  for (int k = 0; k < taps(x.kind); k++)
    if (pixel(x, before, k) == h) sum += weight(x.kind, t, k);
  return sum;
}

/* Results [x, y), those made of pixel h among them. */
int2 fed(axis x, int h) {
  const float reach = x.kind == BICUBIC ? 2 : 1, shift = x.align || x.kind == NEAREST ? 0 : 0.5f;
  const bool one = x.scale == 0;
  const float low = one ? 0 : (h - reach + shift) / x.scale - shift,
              high = one ? x.result : (h + reach + shift) / x.scale - shift;
  return (int2)(h && low > 0 ? max((int)low - 2, 0) : 0,
                h < x.image - 1 && high < x.result ? min((int)high + 3, x.result) : x.result);
}

kernel WORK_GROUP(GROUP, 1) void resize2d(const global storage *x, global storage *y, long n,
                                          int kind, int align, float scale_h, float scale_w, int H,
                                          int W, int Ho, int Wo) {
  const axis vertical = {kind, align, scale_h, H, Ho}, horizontal = {kind, align, scale_w, W, Wo};
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, Wo), plane = quotient(row, Ho);
  float down, right, sum = 0;
  const int above = position(vertical, row - plane * Ho, &down),
            left = position(horizontal, e - row * Wo, &right);
  for (int r = 0; r < taps(kind); r++) {
    const size_t first = (plane * H + pixel(vertical, above, r)) * W;
    float part = 0;
    for (int c = 0; c < taps(kind); c++)
      part += weight(kind, right, c) * load(x, first + pixel(horizontal, left, c));
    sum += weight(kind, down, r) * part;
  }
  store(y, e, sum);
}

kernel WORK_GROUP(GROUP, 1) void resize2d_gradient(const global storage *dy, global storage *dx,
                                                   long n, int kind, int align, float scale_h,
                                                   float scale_w, int H, int W, int Ho, int Wo,
                                                   int add) {
  const axis vertical = {kind, align, scale_h, H, Ho}, horizontal = {kind, align, scale_w, W, Wo};
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, W), plane = quotient(row, H);
  const int h = row - plane * H, w = e - row * W;
  const int2 rows = fed(vertical, h), columns = fed(horizontal, w);
  float sum = 0;
  for (int i = rows.x; i < rows.y; i++) {
    const float down = weight_of(vertical, i, h);
    float part = 0;
    if (down == 0) continue;
    for (int j = columns.x; j < columns.y; j++) {
      const float right = weight_of(horizontal, j, w);
      if (right != 0) part += right * load(dy, (plane * Ho + i) * Wo + j);
    }
    sum += down * part;
  }
  store(dx, e, add ? load(dx, e) + sum : sum);
}
