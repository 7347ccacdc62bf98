/* Building graphs: shapes, the sticky error and its sentences. */
#include "check.h"

#include <math.h>
#include <string.h>

static ac_graph *new_graph(void) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  return graph;
}

static void assert_shape(const ac_tensor *tensor, int rank, const int64_t *shape) {
  ac_tensor_info info;
  assert_non_null(tensor);
  ac_tensor_get_info(tensor, &info);
  assert_int_equal(info.rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(info.shape[i], shape[i]);
}

static void shapes_follow_the_ops(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, 5));
  ac_tensor *table = ac_parameter(g, "table", SHAPE(11, 12), NULL);
  ac_tensor *w = ac_parameter(g, "w", SHAPE(12, 36), NULL);
  ac_tensor *x = ac_embedding(table, ids);
  assert_shape(x, SHAPE(AC_BATCH, 5, 12));
  ac_tensor *qkv = ac_linear(x, w, NULL, AC_IN_OUT);
  assert_shape(qkv, SHAPE(AC_BATCH, 5, 36));
  ac_tensor *y = ac_causal_attention(qkv, &(ac_attention_desc){.heads = 3});
  assert_shape(y, SHAPE(AC_BATCH, 5, 12));
  assert_shape(ac_linear(y, table, NULL, AC_OUT_IN), SHAPE(AC_BATCH, 5, 11));
  ac_tensor *rows = ac_reshape(y, SHAPE(AC_BATCH_TIMES(5), 12));
  assert_shape(rows, SHAPE(AC_BATCH_TIMES(5), 12));
  assert_shape(ac_reshape(rows, SHAPE(AC_BATCH, 0, 12)), SHAPE(AC_BATCH, 5, 12));
  assert_shape(ac_reshape(rows, SHAPE(0, 6)), SHAPE(AC_BATCH_TIMES(10), 6));
  assert_shape(ac_transpose(y, 1, 2), SHAPE(AC_BATCH, 12, 5));
  assert_shape(ac_matmul(y, y, false, true), SHAPE(AC_BATCH, 5, 5));
  assert_shape(ac_matmul(y, y, true, false), SHAPE(AC_BATCH, 12, 12));
  assert_ptr_equal(ac_dropout(y, 0), y);
  assert_int_equal(ac_graph_status(g), AC_OK);
  assert_string_equal(ac_graph_message(g), "");
  ac_graph_free(g);
}

static void shapes_of_images(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 6, 9, 12));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(4, 3, 3, 5), NULL);
  const ac_conv2d_desc moved = {
      .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .groups = 2};
  assert_shape(ac_conv2d(x, w, NULL, &moved), SHAPE(AC_BATCH, 4, 5, 4));
  const ac_pool2d_desc pairs = {.kernel = {2, 3}}, threes = {{3, 3}, {2, 2}, {1, 1}};
  assert_shape(ac_max_pool2d(x, &pairs), SHAPE(AC_BATCH, 6, 4, 4));
  assert_shape(ac_average_pool2d(x, &threes), SHAPE(AC_BATCH, 6, 5, 6));
  assert_shape(ac_global_average_pool(x), SHAPE(AC_BATCH, 6));
  assert_shape(ac_upsample_nearest2d(x, 3), SHAPE(AC_BATCH, 6, 27, 36));
  ac_tensor *part = ac_slice(x, 1, 2, 3), *parts[] = {part, x, part};
  assert_shape(part, SHAPE(AC_BATCH, 3, 9, 12));
  assert_shape(ac_concat(g, parts, 3, 1), SHAPE(AC_BATCH, 12, 9, 12));
  assert_int_equal(ac_graph_status(g), AC_OK);
  ac_graph_free(g);
}

static void the_first_failure_sticks(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(3, 5), NULL);
  ac_tensor *y = ac_linear(x, w, NULL, AC_OUT_IN);
  assert_null(y);
  assert_null(ac_gelu(y, AC_GELU_TANH));
  assert_null(ac_parameter(g, "w", SHAPE(3, 5), NULL));
  ac_graph_set_loss(g, y);
  assert_int_equal(ac_graph_status(g), AC_ERROR_ARGUMENT);
  assert_string_equal(ac_graph_message(g),
                      "linear: x is [B, 4] but the weight is [3, 5] (out, in)");
  ac_plan *plan;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_refused(ac_plan_create(&plan, g, device, &(ac_plan_desc){0}), AC_ERROR_ARGUMENT,
                 "linear: x is [B, 4]");
  assert_null(plan);
  ac_device_close(device);
  ac_graph_free(g);
}

/* Builds something wrong on a fresh graph and checks the sentence. */
#define REFUSED(text, statement)                                     \
  do {                                                               \
    ac_graph *g = new_graph();                                       \
    ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 6, 4));  \
    ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, 6)); \
    ac_tensor *w = ac_parameter(g, "w", SHAPE(4, 4), NULL);          \
    ac_tensor *b = ac_parameter(g, "b", SHAPE(4), NULL);             \
    (void)x, (void)ids, (void)w, (void)b;                            \
    assert_int_equal(ac_graph_status(g), AC_OK);                     \
    statement;                                                       \
    assert_int_not_equal(ac_graph_status(g), AC_OK);                 \
    assert_contains(ac_graph_message(g), text);                      \
    assert_null(strchr(ac_graph_message(g), '\n'));                  \
    ac_graph_free(g);                                                \
  } while (0)

static void wrong_operands_are_named(void **state) {
  (void)state;
  REFUSED("linear: operand 1 is missing", ac_linear(x, NULL, NULL, AC_OUT_IN));
  REFUSED("linear: the bias is [4, 4]", ac_linear(x, w, w, AC_OUT_IN));
  REFUSED("linear: unknown weight layout 7", ac_linear(x, w, b, (ac_layout)7));
  REFUSED("matmul: cannot multiply [B, 6, 4] by [4, 4]", ac_matmul(x, w, false, false));
  REFUSED("matmul: cannot multiply [B, 6, 4] by [B, 6, 4]", ac_matmul(x, x, false, false));
  REFUSED("add: shapes f32 [B, 6, 4] and i32 [B, 6]", ac_add(x, ids));
  REFUSED("multiply: shapes", ac_multiply(x, ac_parameter(g, "c", SHAPE(6), NULL)));
  REFUSED("embedding: the table is f32 [4]", ac_embedding(b, ids));
  REFUSED("embedding:", ac_embedding(w, x));
  REFUSED("layer_norm: x is [B, 6, 4] but gamma or beta is [4, 4]", ac_layer_norm(x, w, b, 0));
  REFUSED("layer_norm: epsilon is nan", ac_layer_norm(x, b, b, NAN));
  REFUSED("rms_norm: x is [B, 6, 4] but gamma is [4, 4]", ac_rms_norm(x, w, 0));
  REFUSED("rms_norm: epsilon is -1", ac_rms_norm(x, b, -1));
  REFUSED("group_norm: 6 channels cannot be divided into 4 groups",
          ac_group_norm(x, NULL, NULL, 4, 0));
  REFUSED("group_norm: 6 channels cannot be divided into 0 groups",
          ac_group_norm(x, NULL, NULL, 0, 0));
  REFUSED("group_norm: x is [B, 6, 4] but beta is [4]", ac_sample_norm(x, NULL, b, 0));
  REFUSED("group_norm: x is i32 [B, 6]; it takes f32 [B, C, ...]",
          ac_instance_norm(ids, NULL, NULL, 0));
  REFUSED("group_norm: epsilon is inf", ac_instance_norm(x, NULL, NULL, INFINITY));
  REFUSED("batch_norm: operand 1 is missing", ac_batch_norm(x, NULL, NULL, NULL, b, NULL));
  REFUSED("batch_norm: the running mean and variance must be frozen parameters of 6 elements",
          ac_batch_norm(x, NULL, NULL, b, b, NULL));
  REFUSED("weight_standardisation: the weight is f32 [B, 6, 4]", ac_weight_standardisation(x, 0));
  REFUSED("leaky_relu: the slope is -0.1", ac_leaky_relu(x, -0.1f));
  REFUSED("gelu: unknown kind", ac_gelu(x, (ac_gelu_kind)9));
  REFUSED("relu: x is i32", ac_relu(ids));
  REFUSED("scale: the factor is not finite", ac_scale(x, INFINITY));
  REFUSED("attention: qkv is [B, 6, 4]", ac_causal_attention(x, &(ac_attention_desc){.heads = 1}));
  REFUSED("attention: needs at least one head", ac_causal_attention(x, NULL));
  REFUSED("attention: 3 heads do not divide the width 4",
          ac_causal_attention(ac_input(g, "q", AC_F32, SHAPE(AC_BATCH, 6, 12)),
                              &(ac_attention_desc){.heads = 3}));
  REFUSED("dropout: p is 1", ac_dropout(x, 1));
  REFUSED("dropout: x has no batch", ac_dropout(w, 0.5f));
  REFUSED("reshape: [B, 6, 4]", ac_reshape(x, SHAPE(AC_BATCH, 7, 4)));
  REFUSED("reshape: [B, 6, 4]", ac_reshape(x, SHAPE(24)));
  REFUSED("transpose: cannot swap axes 0 and 1", ac_transpose(x, 1, 0));
  REFUSED("cross_entropy: logits are f32 [B, 6, 4], targets i32 [B, 6], weights [4]",
          ac_cross_entropy(x, ids, b, NULL));
  REFUSED("linear_cross_entropy: x is [B, 6, 4] but the weight is [5, 3] (classes, in)",
          ac_linear_cross_entropy(x, ac_parameter(g, "v", SHAPE(5, 3), NULL), AC_OUT_IN, ids, NULL,
                                  NULL));
  REFUSED("linear_cross_entropy: x is [B, 6, 4], targets i32 [B, 6], weights [4]",
          ac_linear_cross_entropy(x, w, AC_IN_OUT, ids, b, NULL));
  REFUSED("linear_cross_entropy: unknown weight layout",
          ac_linear_cross_entropy(x, w, (ac_layout)7, ids, NULL, NULL));
  REFUSED("cross_entropy: smoothing is 1, not in [0, 1)",
          ac_cross_entropy(x, ids, NULL, &(ac_cross_entropy_desc){.smoothing = 1}));
  REFUSED("linear_cross_entropy: smoothing is nan, not in [0, 1)",
          ac_linear_cross_entropy(x, w, AC_IN_OUT, ids, NULL,
                                  &(ac_cross_entropy_desc){.smoothing = NAN}));
  REFUSED("binary_cross_entropy: logits are [B, 6, 4], targets f32 [4], weights absent",
          ac_binary_cross_entropy(x, b, NULL));
  REFUSED("mean_squared_error: prediction is", ac_mean_squared_error(x, ids, NULL));
  REFUSED("reshape: [B, 6, 4]", ac_reshape(x, SHAPE(1LL << 40, 1LL << 40)));
  REFUSED("reshape: [B, 6, 4]", ac_reshape(x, SHAPE(INT64_MIN, 24)));
  REFUSED("scale: a loss is no operand", ac_scale(ac_cross_entropy(x, ids, NULL, NULL), 2));
  REFUSED("reshape: a loss is no operand",
          ac_reshape(ac_cross_entropy(x, ids, NULL, NULL), SHAPE(2, 4)));
  REFUSED("is beyond any device",
          ac_linear(ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 1LL << 24, 4)),
                    ac_parameter(g, "v", SHAPE(1LL << 30, 4), NULL), NULL, AC_OUT_IN));
  REFUSED("hints contradict", ac_tensor_hint(ac_tensor_hint(ac_relu(x), AC_KEEP), AC_RECOMPUTE));
  REFUSED("a hint is for results of ops", ac_tensor_hint(x, AC_KEEP));
  REFUSED("input \"x\" exists already", ac_input(g, "x", AC_F32, SHAPE(AC_BATCH)));
  REFUSED("parameter \"w\" exists already", ac_parameter(g, "w", SHAPE(1), NULL));
  REFUSED("input \"y\": a shape has", ac_input(g, "y", AC_F32, SHAPE(3)));
  REFUSED("parameter \"y\": a shape has", ac_parameter(g, "y", SHAPE(AC_BATCH), NULL));
  REFUSED("parameter \"y\": a shape has", ac_parameter(g, "y", SHAPE(1LL << 40, 1LL << 40), NULL));
  REFUSED("parameter without a name", ac_parameter(g, "", SHAPE(1), NULL));
  REFUSED("inputs are f32 or i32", ac_input(g, "y", AC_BF16, SHAPE(AC_BATCH)));
  REFUSED("the loss is no result of a loss op", ac_graph_set_loss(g, x));
  REFUSED("output \"x\" is no result of an op", ac_graph_set_output(g, "x", x));
}

static void wrong_images_are_named(void **state) {
  (void)state;
#define IMAGE ac_input(g, "i", AC_F32, SHAPE(AC_BATCH, 6, 5, 7))
#define KERNEL(...) ac_parameter(g, "k", SHAPE(__VA_ARGS__), NULL)
#define CONV2D(...) &(ac_conv2d_desc){__VA_ARGS__}
#define POOL2D(...)   \
  &(ac_pool2d_desc) { \
    __VA_ARGS__       \
  }
  REFUSED("conv2d: x is [B, 6, 4] and the weight [4, 4]", ac_conv2d(x, w, NULL, NULL));
  REFUSED("conv2d: operand 1 is missing", ac_conv2d(IMAGE, NULL, NULL, NULL));
  REFUSED("conv2d: the bias is [4] but the weight is [8, 6, 3, 3]",
          ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), b, NULL));
  REFUSED("conv2d: 4 groups do not divide the channels of x [B, 6, 5, 7] and of the weight",
          ac_conv2d(IMAGE, KERNEL(8, 2, 3, 3), NULL, CONV2D(.groups = 4)));
  REFUSED("conv2d: 3 groups do not divide",
          ac_conv2d(IMAGE, KERNEL(8, 2, 3, 3), NULL, CONV2D(.groups = 3)));
  REFUSED("conv2d: -1 groups do not divide",
          ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.groups = -1)));
  REFUSED("conv2d: x is [B, 6, 5, 7], in 2 groups of channels, but the weight is [8, 6, 3, 3]",
          ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.groups = 2)));
  REFUSED("conv2d: a kernel of height 6 and dilation 1 is larger than the padded image's 5",
          ac_conv2d(IMAGE, KERNEL(8, 6, 6, 3), NULL, NULL));
  REFUSED(
      "conv2d: a kernel of width 6 and dilation 2 is larger than the padded image's 9",
      ac_conv2d(IMAGE, KERNEL(8, 6, 5, 6), NULL, CONV2D(.padding = {0, 1}, .dilation = {1, 2})));
  REFUSED("conv2d: a kernel of height 1099511627776",
          ac_conv2d(IMAGE, KERNEL(1, 6, 1LL << 40, 1), NULL,
                    CONV2D(.dilation = {INT32_MAX, INT32_MAX})));
  REFUSED("conv2d: stride -1, padding 0 and dilation 1",
          ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.stride = {1, -1})));
  REFUSED("conv2d: stride 1, padding -1 and dilation 1",
          ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.padding = {-1, 0})));
  REFUSED("max_pool2d: x is [B, 6, 4]", ac_max_pool2d(x, POOL2D(.kernel = {2, 2})));
  REFUSED("max_pool2d: kernel 0", ac_max_pool2d(IMAGE, NULL));
  REFUSED("average_pool2d: kernel 2, stride 2 and padding 2",
          ac_average_pool2d(IMAGE, POOL2D(.kernel = {2, 2}, .padding = {2, 0})));
  REFUSED("average_pool2d: a kernel of height 6 is larger than the padded image's 5",
          ac_average_pool2d(IMAGE, POOL2D(.kernel = {6, 2})));
  REFUSED("average_pool2d: x is [B, 6, 4]", ac_global_average_pool(x));
  REFUSED("upsample_nearest2d: x is [B, 6, 5, 7] and the factor 0",
          ac_upsample_nearest2d(IMAGE, 0));
  REFUSED("concat: [B, 6, 4] and [B, 6] differ", ac_concat(g, (ac_tensor *[]){x, ids}, 2, 1));
  REFUSED("concat: [B, 6, 4] has no axis 0", ac_concat(g, (ac_tensor *[]){x, x}, 2, 0));
  REFUSED("concat: 9 tensors", ac_concat(g, (ac_tensor *[]){x, x, x, x, x, x, x, x, x}, 9, 1));
  REFUSED("slice: cannot take 3 from 4 on along axis 1 of [B, 6, 4]", ac_slice(x, 1, 4, 3));
  REFUSED("slice: cannot take 1 from 0 on along axis 0", ac_slice(x, 0, 0, 1));
  REFUSED("slice: cannot take", ac_slice(x, 1, INT64_MAX, INT64_MAX));
}

static void graphs_do_not_mix(void **state) {
  (void)state;
  ac_graph *g = new_graph(), *h = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4));
  ac_tensor *w = ac_parameter(h, "w", SHAPE(4, 4), NULL);
  assert_null(ac_linear(x, w, NULL, AC_OUT_IN));
  assert_contains(ac_graph_message(g), "linear: an operand belongs to another graph");
  assert_int_equal(ac_graph_status(h), AC_OK);
  ac_graph_free(g);
  ac_graph_free(h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_follow_the_ops),    cmocka_unit_test(shapes_of_images),
      cmocka_unit_test(the_first_failure_sticks), cmocka_unit_test(wrong_operands_are_named),
      cmocka_unit_test(wrong_images_are_named),   cmocka_unit_test(graphs_do_not_mix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
