/* conv2d over images x[n,Ci,H,W] in groups of channels, with stride s, padding p and dilation d:
 *   y[n,o,i,j]  (+)= b[o] + sum_{c,r,t} W[o,c,r,t] x[n,c,i s - p + r d, j s - p + t d]
 *   dx[n,c,h,w] (+)= b[c] + sum of W[o,c,r,t] dy[n,o,i,j]
 *                           where i s - p + r d = h and j s - p + t d = w
 *   dW[o,c,r,t] (+)= sum_{n,i,j} dy[n,o,i,j] x[n,c,i s - p + r d, j s - p + t d]
 * dx is the transposed convolution of dy. With VOLUME all have a third axis, the depth.
 *
 * Each is a product for each group of channels, and reads operands in their places. Its dimensions
 * are made of positions (n,i,j) (for dx: (n,h,w)), of taps (channel,r,t), and of channels:
 *   conv2d                  C[o, position] = sum over taps W[o, tap] image[tap, position]
 *   conv_transpose2d        C[c, position] = sum over taps W[tap, c] image[tap, position]
 *   conv2d_weight_gradient  C[o, tap] = sum over positions dy[o, position] image[tap, position]
 * the last one by chunks of positions into partial sums [chunks,|W|], which add.cl's sum_columns
 * then sums.
 *
 * Work-group TX x TY computes a tile of C (products.h). In local memory positions and taps of the
 * tile are also kept, computed once: about 4 * (DEPTH + 3) * (TY * ROWS + TX * COLUMNS *
 * VECTOR) bytes, at most 11 KiB for the tiles that conv2d.c chooses. Groups are numbered along
 * dimension 0 alone. Every sum is one chain of fma in the order of the inner dimension.
 *
 * Where a matrix unit multiplies, `columns` spreads operands out in memory for it, some positions
 * at a time (conv2d_columns.c).
 *
 * Depthwise kernels, for one input channel to a group: one work-item an element of y or dx in
 * groups of GROUP, and a work-group of ROW_GROUP for each element of dW (local memory 4 * ROW_GROUP
 * bytes), as for each element of db in channel_sums.
 *
 * Dtypes: storage for images, weights and their gradients dx; float for biases, dW, db. */
#include "product/products.h"

/* What all kernels are told: the images on either side, H x W and h x w, the kernel and how it
 * moves. */
#define GEOMETRY                                                                                   \
  int groups, int in, int out, int H, int W, int h, int w, int kh, int kw, int sh, int sw, int ph, \
      int pw, int dh, int dw, int D, int d, int kd, int sd, int pd, int dd

/* Volumes have a third axis, the depth, in front of the others. */
#if defined(VOLUME)
#define IF_VOLUME(code) code
#define KERNEL_AREA (kd * kh * kw)
#define PIXELS (d * h * w)
#define SOURCE ((size_t)D * H * W)
#else
#define IF_VOLUME(code)
#define KERNEL_AREA (kh * kw)
#define PIXELS (h * w)
#define SOURCE ((size_t)H * W)
#endif

#if defined(INPUT_GRADIENT)
/* Where the tap at (r d, t d) finds its factor for position (h + p, w + p) of dx. */
#define FIND(position, tap, step, size, at) \
  (at = (position) - (tap), at >= 0 && is_step(at, step) && (at = in_steps(at, step)) < (size))
bool is_step(int at, int step) {
  return step == 1 || at % step == 0;
}
int in_steps(int at, int step) {
  return step == 1 ? at : at / step;
}
#else
#define FIND(position, tap, step, size, at) (at = (position) + (tap), at >= 0 && at < (size))
#endif

#if defined(TX)

#if defined(WEIGHT_GRADIENT)
#define POSITIONS DEPTH
#define TAPS TILE_N
#else
#define POSITIONS TILE_N
#define TAPS DEPTH
#endif

/* C's rows m, columns n and inner dimension k; a chunk takes at most `chunk` of k. `a` is W or
 * dy, `b` the image that taps are taken from, of `source` channels to a group and size H x W;
 * positions are those of an image h x w. */
kernel WORK_GROUP(TX, TY) void conv2d(const global storage *a, const global storage *b,
                                      const global float *bias,
#if defined(WEIGHT_GRADIENT)
                                      global float *c,
#else
                                      global storage *c,
#endif
                                      int m, int n, int k, int chunk, int add, GEOMETRY) {
  TILE_A;
  TILE_B;
  local float *b_elements = (local float *)tile_b;
  local int image[POSITIONS], top[POSITIONS], left[POSITIONS];
  local int channel[TAPS], down[TAPS], right[TAPS];
  IF_VOLUME(local int front[POSITIONS]; local int back[TAPS];)
  const int tx = get_local_id(0), ty = get_local_id(1), item = ty * TX + tx;
  const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
  size_t rest = get_group_id(0);
  const int tile_column = (int)modulo(rest, tiles_n);
  rest = quotient(rest, tiles_n);
  const int tile_row = (int)modulo(rest, tiles_m);
  rest = quotient(rest, tiles_m);
  const int group = (int)modulo(rest, groups);
  const size_t part = quotient(rest, groups);
  const int row0 = tile_row * TILE_M, column0 = tile_column * TILE_N;
  const int begin = (int)(part * chunk), end = min(k - begin, chunk) + begin;
  const int area = KERNEL_AREA, pixels = PIXELS;
  const size_t source = SOURCE;

  vector sum[ROWS][COLUMNS];
  clear_sums(sum);

  for (int k0 = begin; k0 < end; k0 += DEPTH) {
    /* Which image and pixel each position is, and which channel and pixel each tap. */
#if defined(WEIGHT_GRADIENT)
    const int first_position = k0, last_position = end, first_tap = column0, last_tap = n;
    const bool new_positions = true, new_taps = k0 == begin;
#else
    const int first_position = column0, last_position = n, first_tap = k0, last_tap = end;
    const bool new_positions = k0 == begin, new_taps = true;
#endif
    for (int e = item; new_positions && e < POSITIONS; e += TX * TY) {
      const int at = first_position + e, n_image = at / pixels;
      int pixel = at - n_image * pixels;
      IF_VOLUME(const int f = pixel / (h * w); pixel -= f * h * w;)
      const int i = pixel / w, j = pixel - i * w;
      image[e] = at < last_position ? n_image : -1;
#if defined(INPUT_GRADIENT)
      top[e] = i + ph;
      left[e] = j + pw;
      IF_VOLUME(front[e] = f + pd;)
#else
      top[e] = i * sh - ph;
      left[e] = j * sw - pw;
      IF_VOLUME(front[e] = f * sd - pd;)
#endif
    }
    for (int e = item; new_taps && e < TAPS; e += TX * TY) {
      const int at = first_tap + e, c_tap = at / area;
      int tap = at - c_tap * area;
      IF_VOLUME(const int b = tap / (kh * kw); tap -= b * kh * kw; back[e] = b * dd;)
      const int r = tap / kw;
      channel[e] = at < last_tap ? c_tap : -1;
      down[e] = r * dh;
      right[e] = (tap - r * kw) * dw;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    /* The tile of a. */
    for (int e = item; e < TILE_M * DEPTH; e += TX * TY) {
      const int i = e / DEPTH, p = e - i * DEPTH, row = row0 + i;
      float v = 0;
      if (row < m && k0 + p < end) {
#if defined(WEIGHT_GRADIENT)
        const int pixel = k0 + p - image[p] * pixels;
        v = load(a, (((size_t)image[p] * groups + group) * out + row) * pixels + pixel);
#elif defined(INPUT_GRADIENT)
        const int tap = k0 + p - channel[p] * area;
        v = load(a, (((size_t)group * in + channel[p]) * out + row) * area + tap);
#else
        v = load(a, ((size_t)group * out + row) * k + k0 + p);
#endif
      }
      tile_a[p][i] = v;
    }
    /* The tile of b: taps of the image, zeros outside it. */
    for (int e = item; e < TILE_N * DEPTH; e += TX * TY) {
      const int p = e / TILE_N, j = e - p * TILE_N;
#if defined(WEIGHT_GRADIENT)
      const int position = p, tap = j;
#else
      const int position = j, tap = p;
#endif
      int y, x;
      IF_VOLUME(int z;)
      float v = 0;
      if (image[position] >= 0 && channel[tap] >= 0 && FIND(top[position], down[tap], sh, H, y) &&
          FIND(left[position], right[tap], sw, W, x)
              IF_VOLUME(&&FIND(front[position], back[tap], sd, D, z))) {
        const size_t plane = ((size_t)image[position] * groups + group) * in + channel[tap];
        size_t at = plane * source + (size_t)y * W + x;
        IF_VOLUME(at += (size_t)z * H * W;)
        v = load(b, at);
      }
      b_elements[p * STRIDE_B + j] = v;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    multiply_tiles(sum, tile_a, tile_b);
    barrier(CLK_LOCAL_MEM_FENCE);
  }

  /* Results. */
  RESULTS(vector, COLUMNS, results, sum)
  UNROLL
  for (int i = 0; i < ROWS; i++) {
    const int row = row0 + ty * ROWS + i;
    UNROLL
    for (int j = 0; j < COLUMNS; j++) {
      float lanes[VECTOR];
      JOIN(vstore, VECTOR)(results[i][j], 0, lanes);
      UNROLL
      for (int l = 0; l < VECTOR; l++) {
        const int column = column0 + (tx + TX * j) * VECTOR + l;
        if (row >= m || column >= n) continue;
#if defined(WEIGHT_GRADIENT)
        c[((part * groups + group) * m + row) * n + column] = lanes[l];
#else
        const int n_image = column / pixels;
        const size_t plane = ((size_t)n_image * groups + group) * out + row;
        const size_t at = plane * pixels + column - n_image * pixels;
        float v = lanes[l];
        if (bias) v += bias[group * out + row];
        if (add) v += load(c, at);
        store(c, at, v);
#endif
      }
    }
  }
}

#elif defined(COLUMNS)

/* Factors of products by matrix units (unit_gemm.cl): column[block][c,r,t][position] of `rows` rows
 * of `length` positions, a multiple of 8, from `begin` on, and zeros from `end` on. The image that
 * taps are taken from is H x W of `in` channels, positions are those of an image h x w. Begins at
 * element `first` of its buffer, a multiple of 8. One work-item eight positions, groups of GROUP.
 */
kernel WORK_GROUP(GROUP, 1) void columns(const global ushort *x, global ushort *column, long n,
                                         long first, int rows, int length, int begin, int end,
                                         GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t line = quotient(e, length / 8), block = quotient(line, rows);
  const int in_line = (int)(e - line * (length / 8)) * 8, row = (int)(line - block * rows);
  const int area = KERNEL_AREA, c = row / area;
  int tap = row - c * area;
  IF_VOLUME(const int b = tap / (kh * kw); tap -= b * kh * kw;)
  const int r = tap / kw, t = tap - r * kw;
  const int pixels = PIXELS, position = begin + (int)block * length + in_line;
  int image = position / pixels, pixel = position - image * pixels;
  IF_VOLUME(int f = pixel / (h * w); pixel -= f * h * w;)
  int i = pixel / w, j = pixel - i * w;
  ushort found[8];
  UNROLL
  for (int l = 0; l < 8; l++) {
    int y, z;
    IF_VOLUME(int plane;)
#if defined(INPUT_GRADIENT)
    bool inside = FIND(i + ph, r * dh, sh, H, y) && FIND(j + pw, t * dw, sw, W, z);
    IF_VOLUME(inside = inside && FIND(f + pd, b * dd, sd, D, plane);)
#else
    bool inside = FIND(i * sh - ph, r * dh, sh, H, y) && FIND(j * sw - pw, t * dw, sw, W, z);
    IF_VOLUME(inside = inside && FIND(f * sd - pd, b * dd, sd, D, plane);)
#endif
    found[l] = 0;
    if (inside && position + l < end) {
      size_t at = (size_t)image * groups * in + c;
      IF_VOLUME(at = at * D + plane;)
      found[l] = x[(at * H + y) * W + z];
    }
    j++;
    if (j == w) j = 0, i++;
#if defined(VOLUME)
    if (i == h) i = 0, f++;
    if (f == d) f = 0, image++;
#else
    if (i == h) i = 0, image++;
#endif
  }
  *(global ushort8 *)(column + first + line * length + in_line) =
      (ushort8)(found[0], found[1], found[2], found[3], found[4], found[5], found[6], found[7]);
}

#else

/* One input channel to a group, `out` output channels. x is H x W, y h x w. */
kernel WORK_GROUP(GROUP, 1) void depthwise(const global storage *x, const global storage *weight,
                                           const global float *bias, global storage *y, long n,
                                           int add, GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, w), plane = quotient(row, h);
  const int j = (int)(e - row * w), i = (int)(row - plane * h);
  const int o = (int)modulo(plane, (size_t)groups * out);
  const size_t from = quotient(plane, out) * H * W, taps = (size_t)o * kh * kw;
  float sum = 0;
  for (int r = 0; r < kh; r++) {
    const int at = i * sh - ph + r * dh;
    if (at < 0 || at >= H) continue;
    for (int t = 0; t < kw; t++) {
      const int to = j * sw - pw + t * dw;
      if (to < 0 || to >= W) continue;
      sum = fma(load(weight, taps + r * kw + t), load(x, from + (size_t)at * W + to), sum);
    }
  }
  if (bias) sum += bias[o];
  store(y, e, add ? load(y, e) + sum : sum);
}

kernel WORK_GROUP(GROUP, 1) void depthwise_input_gradient(const global storage *dy,
                                                          const global storage *weight,
                                                          const global float *bias,
                                                          global storage *dx, long n, int add,
                                                          GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, W), plane = quotient(row, H);
  const int across = (int)(e - row * W) + pw, down = (int)(row - plane * H) + ph;
  const size_t group = modulo(plane, groups);
  float sum = 0;
  for (int o = 0; o < out; o++) {
    const size_t from = (plane * out + o) * h * w, taps = (group * out + o) * kh * kw;
    for (int r = 0; r < kh; r++) {
      const int i = (down - r * dh) / sh;
      if (down < r * dh || i * sh != down - r * dh || i >= h) continue;
      for (int t = 0; t < kw; t++) {
        const int j = (across - t * dw) / sw;
        if (across < t * dw || j * sw != across - t * dw || j >= w) continue;
        sum = fma(load(weight, taps + r * kw + t), load(dy, from + (size_t)i * w + j), sum);
      }
    }
  }
  if (bias) sum += bias[group];
  store(dx, e, add ? load(dx, e) + sum : sum);
}

kernel WORK_GROUP(ROW_GROUP, 1) void depthwise_weight_gradient(const global storage *x,
                                                               const global storage *dy,
                                                               global float *dweight, int images,
                                                               int add, GEOMETRY) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0), pixels = h * w;
  const size_t e = get_group_id(0), o = quotient(e, kh * kw);
  const int tap = (int)(e - o * kh * kw), r = tap / kw, t = tap - r * kw;
  const size_t group = quotient(o, out), source = (size_t)H * W;
  float sum = 0;
  for (int image = 0; image < images; image++) {
    const size_t to = ((size_t)image * groups * out + o) * pixels;
    const size_t from = ((size_t)image * groups + group) * source;
    for (int pixel = item; pixel < pixels; pixel += ROW_GROUP) {
      const int i = pixel / w, j = pixel - i * w;
      const int down = i * sh - ph + r * dh, across = j * sw - pw + t * dw;
      if (down < 0 || down >= H || across < 0 || across >= W) continue;
      sum = fma(load(dy, to + pixel), load(x, from + (size_t)down * W + across), sum);
    }
  }
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  if (item == 0) dweight[e] = add ? dweight[e] + sum : sum;
}

/* db[o] (+)= sum over images and pixels of dy. */
kernel WORK_GROUP(ROW_GROUP, 1) void channel_sums(const global storage *dy, global float *db,
                                                  int images, int channels, int pixels, int add) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t o = get_group_id(0);
  float sum = 0;
  for (int image = 0; image < images; image++) {
    const size_t from = ((size_t)image * channels + o) * pixels;
    for (int pixel = item; pixel < pixels; pixel += ROW_GROUP) sum += load(dy, from + pixel);
  }
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  if (item == 0) db[o] = add ? db[o] + sum : sum;
}

#endif
