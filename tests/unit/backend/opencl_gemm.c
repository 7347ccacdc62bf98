/* The matrix product of the OpenCL backend: whatever the tile, its elements are the same chains of
 * fma, bit for bit, also by emulated matrix units; and the choice of tiles is made once and kept.
 */
#include "support/devices.h"
#include "support/files.h"

#ifdef AC_HAVE_OPENCL
#include "backend/device.h"
#include "backend/opencl/product/gemm.h"
#include "core/half.h"

#include <dirent.h>
#include <math.h>

enum { DEPTH = 16 }; /* cl/product/gemm.cl's */

/* ---- products -------------------------------------------------------------------------------- */

enum { A, B, C, BIAS, MATRICES };

typedef struct example {
  ac_device *device;
  ac_opencl *cl;
  ac_cl_product product;
  float scale; /* of the values */
  int64_t first[MATRICES], count[MATRICES];
  ac_dtype type[MATRICES];
  void *host[MATRICES], *chunk[MATRICES], *view[MATRICES];
} example;

static float get(const example *x, int matrix, int64_t i) {
  return ac_float_read(x->type[matrix], x->host[matrix], i);
}

static void set(const example *x, int matrix, int64_t i, float value) {
  ac_float_write(x->type[matrix], x->host[matrix], i, value);
  if (x->cl->mark_flushed && matrix == C && x->type[C] == AC_F16 && get(x, C, i) == 0)
    ac_float_write(AC_F16, x->host[C], i, value == 0 ? 0.0f : -0.0f);
}

/* Rows begin `pitch` elements apart, the first after `before` elements and a row that no matrix
 * has; the elements before and between are NaN. */
static void make_matrix(example *x, int matrix, bool is_float, int64_t rows, int64_t length,
                        int64_t pitch, int64_t before) {
  x->type[matrix] = is_float ? AC_F32 : x->cl->storage;
  x->first[matrix] = before + pitch;
  x->count[matrix] = before + (rows + 1) * pitch;
  const size_t bytes = (size_t)x->count[matrix] * ac_dtype_bytes(x->type[matrix]);
  x->host[matrix] = calloc(1, bytes);
  assert_non_null(x->host[matrix]);
  static uint32_t state = 1;
  for (int64_t i = 0; i < x->count[matrix]; i++) {
    state = state * 1664525u + 1013904223u;
    const float value = x->scale * ((float)(state >> 8) * 0x1p-23f - 1);
    set(x, matrix, i, i >= before && (i - before) % pitch < length ? value : NAN);
  }
  const ac_backend *backend = x->device->backend;
  assert_ok(ac_device_allocate(x->device, bytes, &x->chunk[matrix]));
  assert_ok(backend->view(x->device->state, x->chunk[matrix], 0, bytes, &x->view[matrix]));
  assert_ok(backend->upload(x->device->state, x->view[matrix], 0, x->host[matrix], bytes));
}

static int64_t pitch_a(const ac_cl_product *p) {
  return p->pitch_a ? p->pitch_a : p->transpose_a ? p->m : p->k;
}

static int64_t pitch_b(const ac_cl_product *p) {
  return p->pitch_b ? p->pitch_b : p->transpose_b ? p->k : p->n;
}

static int64_t pitch_c(const ac_cl_product *p) {
  return p->images ? p->pixels : p->pitch_c ? p->pitch_c : p->n;
}

/* Where a matrix of so many rows begins, counted from the first. */
static int64_t begin_of(const ac_cl_product *p, int64_t matrix, int64_t rows, int64_t pitch,
                        const int64_t step[2]) {
  return p->inner ? matrix / p->inner * step[1] + matrix % p->inner * step[0]
                  : matrix * rows * pitch;
}

/* Counted from first_c. */
static int64_t place_in_c(const ac_cl_product *p, int64_t matrix, int64_t i, int64_t j) {
  const int64_t at = begin_of(p, matrix, p->m, pitch_c(p), p->step_c) + i * pitch_c(p);
  if (!p->images) return at + j;
  return (p->place + j) / p->pixels * p->image + at + (p->place + j) % p->pixels;
}

/* Fills the buffers of matrices, each after one row and the chosen offset; `inner` matrices are
 * next to each other. */
static void make_example(example *x, bool bias) {
  ac_cl_product *p = &x->product;
  const int64_t row_a = pitch_a(p), row_b = pitch_b(p), across = p->inner ? p->inner : 1,
                down = p->batch / across;
  make_matrix(x, A, p->float_a, down * (p->transpose_a ? p->k : p->m),
              across * (p->transpose_a ? p->m : p->k), row_a, p->first_a);
  make_matrix(x, B, p->float_b, down * (p->transpose_b ? p->n : p->k),
              across * (p->transpose_b ? p->k : p->n), row_b, p->first_b);
  const int64_t row_c = pitch_c(p), rows_of_bias = p->images ? p->batch * p->m : p->n;
  const int64_t images = p->images ? (p->place + p->n + p->pixels - 1) / p->pixels : 1;
  make_matrix(x, C, p->float_c, (images * p->image + row_c - 1) / row_c + down * p->m,
              p->images ? row_c : across * p->n, row_c, p->first_c);
  /* The row before them is the bias. */
  make_matrix(x, BIAS, true, 0, rows_of_bias, rows_of_bias, 0);
  p->a = x->view[A], p->b = x->view[B], p->c = x->view[C];
  p->bias = bias ? x->view[BIAS] : NULL;
  p->first_a += row_a, p->first_b += row_b, p->first_c += row_c;
}

static void free_example(example *x) {
  for (int k = 0; k < MATRICES; k++) {
    x->device->backend->release_view(x->device->state, x->view[k]);
    ac_device_release(x->device, x->chunk[k], (uint64_t)x->count[k] * ac_dtype_bytes(x->type[k]));
    free(x->host[k]);
  }
}

/* One element as cl/product/gemm.cl promises it: k in order, then zeros to a multiple of DEPTH. */
static float chain(const example *x, int64_t matrix, int64_t i, int64_t j) {
  const ac_cl_product *p = &x->product;
  const int64_t a =
      x->first[A] + begin_of(p, matrix, p->transpose_a ? p->k : p->m, pitch_a(p), p->step_a);
  const int64_t b =
      x->first[B] + begin_of(p, matrix, p->transpose_b ? p->n : p->k, pitch_b(p), p->step_b);
  float sum = 0;
  for (int64_t l = 0; l < p->k; l++)
    sum = fmaf(get(x, A, a + (p->transpose_a ? l * pitch_a(p) + i : i * pitch_a(p) + l)),
               get(x, B, b + (p->transpose_b ? j * pitch_b(p) + l : l * pitch_b(p) + j)), sum);
  if (p->k % DEPTH) sum = fmaf(0, 0, sum);
  return sum;
}

static void compute(example *x) {
  const ac_cl_product *p = &x->product;
  for (int64_t matrix = 0; matrix < p->batch; matrix++)
    for (int64_t i = 0; i < p->m; i++)
      for (int64_t j = 0; j < p->n; j++) {
        const int64_t at = x->first[C] + place_in_c(p, matrix, i, j);
        float v = chain(x, matrix, i, j);
        if (p->bias) v += get(x, BIAS, p->images ? matrix * p->m + i : j);
        if (p->add) v += get(x, C, at);
        set(x, C, at, v);
      }
}

/* By one of these. */
typedef struct kernel_tile {
  ac_cl_tile tile;
  const ac_cl_unit_tile *of_unit;
} kernel_tile;

static void name_tile(char text[64], const example *x, const kernel_tile *by) {
  const ac_cl_tile *t = &by->tile;
  const ac_cl_unit_tile *u = by->of_unit;
  if (u)
    snprintf(text, 64, "%s, %dx%d sub-groups of %dx%d%s", x->cl->unit->name, u->groups_m,
             u->groups_n, u->fragments_m, u->fragments_n,
             x->product.inner     ? ", next to each other"
             : x->product.pitch_a ? ", pitches"
                                  : "");
  else snprintf(text, 64, "tile %dx%d %dx%dx%d", t->tx, t->ty, t->rows, t->columns, t->vector);
}

static void check_example(example *x, bool bias, const kernel_tile *by) {
  make_example(x, bias);
  if (by->of_unit) assert_ok(ac_cl_unit_gemm(x->cl, &x->product, *by->of_unit));
  else assert_ok(ac_cl_gemm_tile(x->cl, &x->product, by->tile));
  compute(x);
  const size_t size = ac_dtype_bytes(x->type[C]), bytes = (size_t)x->count[C] * size;
  unsigned char *got = malloc(bytes);
  assert_non_null(got);
  assert_ok(x->device->backend->download(x->device->state, x->view[C], 0, got, bytes));
  const unsigned char *want = x->host[C];
  char name[64];
  name_tile(name, x, by);
  for (int64_t i = 0; i < x->count[C]; i++)
    if (memcmp(got + (size_t)i * size, want + (size_t)i * size, size) != 0)
      fail_msg("%s, %s, %lld x %lld x %lld%s%s: element %lld differs from %g",
               ac_dtype_name(x->cl->storage), name, (long long)x->product.m,
               (long long)x->product.n, (long long)x->product.k,
               x->product.transpose_a ? ", a transposed" : "",
               x->product.transpose_b ? ", b transposed" : "", (long long)i, (double)get(x, C, i));
  free(got);
  free_example(x);
}

/* C's first pixel is not that of an image, images have rows of several matrices and a gap. */
static void put_images(ac_cl_product *p) {
  p->pixels = 13;
  p->place = 30;
  p->image = (p->batch * p->m + 1) * p->pixels;
}

/* Sizes with rows of multiples of 16 and of nothing, larger and smaller than all tiles. For units,
 * rows are also in places that are aligned to 16 bytes and that they do not fill. */
static void check_sizes(ac_device *device, const ac_cl_product *class, float scale,
                        const kernel_tile *by) {
  static const int64_t sizes[][3] = {{131, 139, 37}, {144, 160, 48}, {3, 5, 1}, {1, 70, 200}};
  for (int k = 0; k < 4; k++)
    for (int variant = 0; variant < 2; variant++) {
      example x = {.device = device, .cl = device->state, .product = *class, .scale = scale};
      x.product.m = sizes[k][0];
      x.product.n = sizes[k][1];
      x.product.k = sizes[k][2];
      x.product.batch = 1 + (k >= 2);
      x.product.add = variant;
      if (by->of_unit && variant) {
        x.product.pitch_a = (pitch_a(&x.product) + 15) / 8 * 8;
        x.product.pitch_b = (pitch_b(&x.product) + 15) / 8 * 8;
        x.product.pitch_c = x.product.n + 3;
      }
      if (x.product.images) put_images(&x.product);
      check_example(&x, variant, by);
    }
}

static int64_t draw(int64_t least, int64_t most) {
  static uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return least + (int64_t)(state >> 8) % (most - least + 1);
}

/* Rows of a multiple of 16 bytes, of 8, or of none, of matrices next to each other and below each
 * other. The first also begins at such a place, but the other matrices may not. */
static void draw_places(const ac_cl_product *p, int64_t rows, int64_t length, int64_t *pitch,
                        int64_t step[2], int64_t *first) {
  const int64_t unit = draw(0, 1) ? 8 : 1 << draw(0, 2);
  *pitch = (p->inner * length + draw(0, 9) + unit - 1) / unit * unit;
  *first = draw(0, 3) * unit;
  step[0] = length;
  step[1] = rows * *pitch;
}

static int64_t draw_size(void) {
  return draw(0, 2) ? 8 * draw(1, 10) : draw(1, 80);
}

/* As the heads of samples lie. */
static void check_places(ac_device *device, const ac_cl_product *class, const kernel_tile *by) {
  for (int number = 0; number < 16; number++) {
    example x = {.device = device, .cl = device->state, .product = *class, .scale = 1};
    ac_cl_product *p = &x.product;
    p->m = draw_size(), p->n = draw_size(), p->k = draw_size();
    p->inner = draw(1, 3), p->batch = p->inner * draw(1, 2);
    p->add = draw(0, 1);
    draw_places(p, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, &p->pitch_a,
                p->step_a, &p->first_a);
    draw_places(p, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, &p->pitch_b,
                p->step_b, &p->first_b);
    draw_places(p, p->m, p->n, &p->pitch_c, p->step_c, &p->first_c);
    check_example(&x, draw(0, 1), by);
  }
}

static void check_tile(ac_device *device, const ac_cl_product *class, float scale,
                       ac_cl_tile tile) {
  check_sizes(device, class, scale, &(kernel_tile){.tile = tile});
}

/* The lists of all kinds of devices, here on one. Each tile has other transposes and another
 * storage type, so that all of these are met without compiling every combination. */
static void test_tiles_change_no_bit(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  cl->op = "test";
  int number = 0;
  for (int list = 0; list < 6; list++) {
    cl->cpu = list / 2 == 0;
    cl->group = list / 2 == 2 ? 64 : 256;
    const ac_cl_tiles tiles = ac_cl_tiles_for(cl, list % 2);
    for (int i = 0; i < tiles.count; i++, number++) {
      const ac_cl_product class = {.transpose_a = number & 1, .transpose_b = number >> 1 & 1};
      cl->storage = (ac_dtype)(number % 3);
      check_tile(device, &class, 1, tiles.tile[i]);
    }
  }
  ac_device_close(device);
}

static void test_mixed_types(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  cl->op = "test";
  const ac_cl_product classes[] = {{.transpose_a = true, .float_a = true, .float_c = true},
                                   {.transpose_b = true, .float_b = true}};
  for (int i = 0; i < 2; i++) {
    cl->storage = i ? AC_BF16 : AC_F16;
    check_tile(device, &classes[i], 1, ac_cl_tiles_for(cl, true).tile[0]);
  }
  ac_device_close(device);
}

/* Emulated units give the bits of fma in order. Each tile has other transposes, storage and type of
 * C; the first has all transposes, as each reads ahead in its own way. */
static void test_units_have_the_same_bits(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  cl->op = "test";
  cl->unit_options = "-DEMULATED";
  cl->unit_emulated = true;
  int number = 0;
  for (int i = 0; (cl->unit = ac_cl_unit_at(i)); i++)
    for (int large = 0; large < 2; large++, number++) {
      const ac_cl_product class = {.transpose_a = number & 1,
                                   .transpose_b = (number >> 1 ^ number >> 2) & 1,
                                   .float_c = number % 3 == 0};
      cl->storage = number & 1 ? AC_F16 : AC_BF16;
      const kernel_tile by = {.of_unit = large ? &cl->unit->large : &cl->unit->small};
      check_sizes(device, &class, 1, &by);
      check_places(device, &class, &by);
    }
  cl->unit = ac_cl_unit_at(0);
  cl->storage = AC_BF16;
  assert_true(cl->unit->small.ahead > 0);
  for (int transposed = 1; transposed < 4; transposed++) {
    const ac_cl_product class = {
        .transpose_a = transposed & 1, .transpose_b = transposed >> 1, .float_c = true};
    check_sizes(device, &class, 1, &(kernel_tile){.of_unit = &cl->unit->small});
    check_places(device, &class, &(kernel_tile){.of_unit = &cl->unit->small});
  }
  check_sizes(device, &(ac_cl_product){.images = true}, 1,
              &(kernel_tile){.of_unit = &cl->unit->small});
  ac_device_close(device);
}

/* Values with products around 2^-25: what is flushed to zero becomes -0. */
static void test_flushed_values_are_marked(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  cl->op = "test";
  cl->storage = AC_F16;
  cl->mark_flushed = true;
  const ac_cl_product class = {.transpose_b = true};
  check_tile(device, &class, 0x1p-12f, ac_cl_tiles_for(cl, true).tile[0]);
  ac_device_close(device);
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The index of a freshly opened device's tile for large f16 products. */
static int choose(void) {
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  const ac_cl_product product = {.batch = 1};
  cl->op = "test";
  cl->storage = AC_F16;
  cl->preparing = true;
  int index, again;
  assert_ok(ac_cl_tile_index(cl, &product, true, &index));
  assert_ok(ac_cl_tile_index(cl, &product, true, &again));
  assert_int_equal(again, index);
  ac_device_close(device);
  return index;
}

static bool only_tile_file(test_path *path) {
  DIR *folder = opendir(in_folder("tiles").text);
  int found = 0;
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path->text, sizeof path->text, "%.200s/tiles/%.200s", test_folder, entry->d_name);
    found++;
  }
  if (folder) closedir(folder);
  assert_true(found <= 1);
  return found == 1;
}

static void test_choice_is_kept(void **state) {
  (void)state;
  test_path path;
  setenv("ACCRUE_CACHE_DIR", test_folder, 1);
  setenv("ACCRUE_TUNE", "0", 1);
  assert_int_equal(choose(), 0);
  assert_false(only_tile_file(&path));

  setenv("ACCRUE_TUNE", "1", 1);
  const int index = choose();
  assert_true(only_tile_file(&path));
  size_t bytes;
  unsigned char *contents = read_file(path.text, &bytes);

  /* Another tile in the file is believed; one that is none is found anew. */
  ac_device *device = open_opencl("opencl");
  const ac_cl_tiles tiles = ac_cl_tiles_for(device->state, true);
  ac_device_close(device);
  const int other = index ? 0 : 1;
  const ac_cl_tile t = tiles.tile[other];
  char text[128];
  int length = snprintf(text, sizeof text, "accrue tile 1: %d %d %d %d %d\n", t.tx, t.ty, t.rows,
                        t.columns, t.vector);
  write_file(path.text, text, (size_t)length);
  assert_int_equal(choose(), other);
  write_file(path.text, text, (size_t)length - 12);
  assert_true(choose() < tiles.count);
  size_t now;
  unsigned char *repaired = read_file(path.text, &now);
  assert_memory_equal(repaired, contents, strlen("accrue tile 1: "));
  assert_int_equal(repaired[now - 1], '\n');
  free(repaired);
  free(contents);
  unsetenv("ACCRUE_TUNE");
  unsetenv("ACCRUE_CACHE_DIR");
}

/* ---- tiles that compute something else, or nothing ------------------------------------------- */

static ac_cl_tile right_tile;
static bool some_tile_is_right;

static bool same_tile(const ac_cl_tile *a, const ac_cl_tile *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

/* The lowest bit of the first f16 result, or float that a mixed product has: near enough. */
static bool last_bit(const ac_cl_tile *tile, void *result, size_t bytes) {
  (void)bytes;
  if (!some_tile_is_right || !same_tile(tile, &right_tile)) *(unsigned char *)result ^= 1;
  return true;
}

/* An element that is left out. */
static bool hole(const ac_cl_tile *tile, void *result, size_t bytes) {
  if (!some_tile_is_right || !same_tile(tile, &right_tile))
    memset((char *)result + bytes / 8 * 4, 0, 4);
  return true;
}

/* A launch or a read-back that fails. */
static bool failure(const ac_cl_tile *tile, void *result, size_t bytes) {
  (void)result, (void)bytes;
  return some_tile_is_right && same_tile(tile, &right_tile);
}

typedef bool (*distortion)(const ac_cl_tile *tile, void *result, size_t bytes);

static ac_status choose_distorted(distortion distort, bool mixed, int *index) {
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  const ac_cl_product product = {.batch = 1, .float_a = mixed, .float_c = mixed};
  cl->op = "test";
  cl->storage = AC_F16;
  cl->preparing = true;
  cl->distort = distort;
  ac_status status = ac_cl_tile_index(cl, &product, true, index);
  ac_device_close(device);
  return status;
}

static void set_right_tile(int *index) {
  ac_device *device = open_opencl("opencl");
  const ac_cl_tiles tiles = ac_cl_tiles_for(device->state, true);
  *index = tiles.count - 1;
  right_tile = tiles.tile[*index];
  some_tile_is_right = true;
  ac_device_close(device);
}

static void test_wrong_tiles_are_not_taken(void **state) {
  (void)state;
  test_path path;
  int index, last;
  setenv("ACCRUE_CACHE_DIR", test_folder, 1);
  setenv("ACCRUE_TUNE", "1", 1);
  some_tile_is_right = false;
  for (int mixed = 0; mixed < 2; mixed++) {
    assert_int_equal(choose_distorted(hole, mixed, &index), AC_ERROR_UNSUPPORTED);
    assert_non_null(strstr(ac_last_error(), "right results"));
  }
  assert_false(only_tile_file(&path));
  assert_ok(choose_distorted(last_bit, false, &index));
  assert_int_equal(index, 0);
  assert_ok(choose_distorted(last_bit, true, &index));
  assert_int_equal(index, 0);
  assert_false(only_tile_file(&path)); /* for it may be right another time */

  set_right_tile(&last);
  assert_ok(choose_distorted(hole, false, &index));
  assert_int_equal(index, last);
  assert_true(only_tile_file(&path));
  remove(path.text);
  assert_ok(choose_distorted(last_bit, true, &index));
  assert_int_equal(index, last);
  unsetenv("ACCRUE_TUNE");
  unsetenv("ACCRUE_CACHE_DIR");
}

/* They are passed over like wrong ones, but where none runs nothing is known to be wrong: the first
 * is taken. */
static void test_tiles_that_fail_are_not_wrong(void **state) {
  (void)state;
  test_path path;
  int index, last;
  setenv("ACCRUE_CACHE_DIR", test_folder, 1);
  setenv("ACCRUE_TUNE", "1", 1);
  some_tile_is_right = false;
  for (int mixed = 0; mixed < 2; mixed++) {
    assert_ok(choose_distorted(failure, mixed, &index));
    assert_int_equal(index, 0);
  }
  assert_false(only_tile_file(&path));
  set_right_tile(&last);
  assert_ok(choose_distorted(failure, false, &index));
  assert_int_equal(index, last);
  assert_true(only_tile_file(&path));
  unsetenv("ACCRUE_TUNE");
  unsetenv("ACCRUE_CACHE_DIR");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tiles_change_no_bit),
      cmocka_unit_test(test_mixed_types),
      cmocka_unit_test(test_units_have_the_same_bits),
      cmocka_unit_test(test_flushed_values_are_marked),
      cmocka_unit_test_setup_teardown(test_choice_is_kept, make_test_folder, remove_test_folder),
      cmocka_unit_test_setup_teardown(test_wrong_tiles_are_not_taken, make_test_folder,
                                      remove_test_folder),
      cmocka_unit_test_setup_teardown(test_tiles_that_fail_are_not_wrong, make_test_folder,
                                      remove_test_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
static void test_without_opencl(void **state) {
  (void)state;
  skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_opencl)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
