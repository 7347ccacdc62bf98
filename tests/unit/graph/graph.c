/* Building graphs: shapes, the sticky error and its sentences. */
#include "support/headers.h"

#include "graph/graph.h"

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
  assert_shape(ac_rope(ac_reshape(y, SHAPE(AC_BATCH, 5, 3, 4)), ids, NULL),
               SHAPE(AC_BATCH, 5, 3, 4));
  assert_shape(ac_rope(ac_reshape(w, SHAPE(1, 12, 6, 6)), NULL, NULL), SHAPE(1, 12, 6, 6));
  ac_tensor *rows = ac_reshape(y, SHAPE(AC_BATCH_TIMES(5), 12));
  assert_shape(rows, SHAPE(AC_BATCH_TIMES(5), 12));
  assert_shape(ac_reshape(rows, SHAPE(AC_BATCH, 0, 12)), SHAPE(AC_BATCH, 5, 12));
  assert_shape(ac_reshape(rows, SHAPE(0, 6)), SHAPE(AC_BATCH_TIMES(10), 6));
  assert_shape(ac_transpose(y, 1, 2), SHAPE(AC_BATCH, 12, 5));
  assert_shape(ac_matmul(y, y, false, true), SHAPE(AC_BATCH, 5, 5));
  assert_shape(ac_matmul(y, y, true, false), SHAPE(AC_BATCH, 12, 12));
  assert_shape(ac_dropout(y, 0), SHAPE(AC_BATCH, 5, 12));
  assert_shape(ac_transpose(y, 2, 2), SHAPE(AC_BATCH, 5, 12));
  assert_shape(ac_transpose(y, -1, -2), SHAPE(AC_BATCH, 12, 5));
  assert_shape(ac_transpose(y, 2, -1), SHAPE(AC_BATCH, 5, 12));
  assert_shape(ac_slice(y, -2, 1, 3), SHAPE(AC_BATCH, 3, 12));
  assert_shape(ac_concat(g, (ac_tensor *[]){y, y}, 2, -1), SHAPE(AC_BATCH, 5, 24));
  assert_shape(ac_stop_gradient(y), SHAPE(AC_BATCH, 5, 12));
  assert_int_equal(ac_graph_status(g), AC_OK);
  assert_string_equal(ac_graph_message(g), "");
  ac_graph_free(g);
}

static void shapes_of_movements(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 8, 6, 4));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(4, 3), NULL);
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, 9));
  assert_shape(ac_permute(x, AC_AXES(0, 2, -1, 1)), SHAPE(AC_BATCH, 6, 4, 8));
  assert_shape(ac_permute(w, AC_AXES(1, 0)), SHAPE(3, 4));
  assert_shape(ac_expand(w, SHAPE(5, 4, 3)), SHAPE(5, 4, 3));
  assert_shape(ac_expand(w, SHAPE(AC_BATCH, 4, 0)), SHAPE(AC_BATCH, 4, 3));
  ac_tensor *row = ac_sum(x, AC_AXES(2), true);
  assert_shape(ac_expand(row, SHAPE(0, 0, 7, 4)), SHAPE(AC_BATCH, 8, 7, 4));
  ac_tensor *parts[20];
  for (int i = 0; i < 20; i++) parts[i] = x;
  assert_shape(ac_concat(g, parts, 20, 1), SHAPE(AC_BATCH, 160, 6, 4));
  assert_shape(ac_stack(g, parts, 20, 1), SHAPE(AC_BATCH, 20, 8, 6, 4));
  assert_shape(ac_stack(g, parts, 2, -1), SHAPE(AC_BATCH, 8, 6, 4, 2));
  assert_shape(ac_stack(g, parts, 1, -2), SHAPE(AC_BATCH, 8, 6, 1, 4));
  assert_shape(ac_slice_step(x, 2, 5, 3, -2), SHAPE(AC_BATCH, 8, 3, 4));
  assert_shape(ac_slice_step(ids, 1, 0, 5, 2), SHAPE(AC_BATCH, 5));
  assert_shape(ac_slice_step(w, 0, 3, 1, INT64_MIN), SHAPE(1, 3));
  ac_split(x, 1, 4, NULL, parts);
  for (int i = 0; i < 4; i++) assert_shape(parts[i], SHAPE(AC_BATCH, 2, 6, 4));
  ac_split(ids, -1, 2, (const int64_t[]){3, 6}, parts);
  assert_shape(parts[0], SHAPE(AC_BATCH, 3));
  assert_shape(parts[1], SHAPE(AC_BATCH, 6));
  assert_shape(ac_flip(x, AC_AXES(1, -1)), SHAPE(AC_BATCH, 8, 6, 4));
  assert_shape(ac_flip(x, AC_ALL_AXES), SHAPE(AC_BATCH, 8, 6, 4));
  ac_pad_desc pad = {.before = {0, 0, 1}, .after = {0, 3, 0, 2}};
  assert_shape(ac_pad(x, &pad), SHAPE(AC_BATCH, 11, 7, 6));
  assert_shape(ac_pad(x, NULL), SHAPE(AC_BATCH, 8, 6, 4));
  assert_shape(ac_pixel_shuffle(x, 2), SHAPE(AC_BATCH, 2, 12, 8));
  assert_shape(ac_pixel_unshuffle(x, 2), SHAPE(AC_BATCH, 32, 3, 2));
  ac_tensor *rows = ac_input(g, "rows", AC_I32, SHAPE(AC_BATCH, 8, 5));
  ac_tensor *elements = ac_input(g, "elements", AC_I32, SHAPE(AC_BATCH, 8, 2, 4));
  ac_tensor *three = ac_constant(g, "three", AC_I32, SHAPE(3), (const int32_t[]){0, 3, 1});
  assert_shape(ac_gather(x, rows, 2), SHAPE(AC_BATCH, 8, 5, 4));
  assert_shape(ac_gather(x, elements, -2), SHAPE(AC_BATCH, 8, 2, 4));
  ac_tensor *one = ac_input(g, "one", AC_I32, SHAPE(AC_BATCH));
  assert_shape(ac_gather(w, one, 0), SHAPE(AC_BATCH, 3));
  assert_shape(ac_gather(w, three, 0), SHAPE(3, 3));
  assert_shape(ac_gather(ids, ids, 1), SHAPE(AC_BATCH, 9));
  assert_shape(ac_index_select(x, three, 3), SHAPE(AC_BATCH, 8, 6, 3));
  assert_shape(ac_scatter_add(ac_gather(x, rows, 2), rows, 2, 6), SHAPE(AC_BATCH, 8, 6, 4));
  assert_shape(ac_scatter_add(ac_gather(x, elements, 2), elements, 2, 7), SHAPE(AC_BATCH, 8, 7, 4));
  assert_shape(ac_one_hot(ids, 5), SHAPE(AC_BATCH, 9, 5));
  assert_shape(ac_embedding_bag(w, ids, NULL, NULL, NULL), SHAPE(AC_BATCH, 3));
  assert_shape(
      ac_embedding_bag(w, rows, ac_slice(ids, 1, 0, 8), NULL, &(ac_embedding_bag_desc){AC_BAG_MAX}),
      SHAPE(AC_BATCH, 8, 3));
  assert_int_equal(ac_graph_status(g), AC_OK);
  ac_graph_free(g);
}

/* What leaves each element in its place, or moves only axes of 1, costs nothing. */
static void movements_of_nothing_are_views(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1, 6, 4));
  ac_permute(x, AC_AXES(0, 2, 1, 3));
  ac_transpose(x, 2, 2);
  ac_expand(x, SHAPE(0, 0, 0, 0));
  ac_slice(x, 2, 0, 6);
  ac_slice_step(x, 1, 0, 1, -7);
  ac_flip(x, AC_AXES(1));
  ac_pad(x, NULL);
  ac_stop_gradient(x);
  assert_int_equal(ac_graph_status(g), AC_OK);
  assert_int_equal(g->node_count, 0);
  ac_permute(x, AC_AXES(0, 1, 3, 2));
  assert_int_equal(g->node_count, 1);
  ac_graph_free(g);
}

/* Ids keep their bound wherever they are moved. */
static void moved_ids_keep_their_bound(void **state) {
  (void)state;
  for (int moved = 0; moved < 4; moved++) {
    ac_graph *g = new_graph();
    ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 6, 4));
    ac_tensor *ids = ac_argmax(x, 1, false), *twice[] = {ids, ids};
    static const int32_t some[] = {0, 7, 3};
    ac_tensor *constant = ac_constant(g, "c", AC_I32, SHAPE(3), some);
    ac_tensor *from = moved == 0   ? ac_slice(ids, 1, 0, 2)
                      : moved == 1 ? ac_stack(g, twice, 2, 1)
                      : moved == 2 ? ac_permute(ac_stack(g, twice, 2, 1), AC_AXES(0, 2, 1))
                                   : ac_flip(constant, AC_AXES(0));
    assert_int_equal(ac_graph_status(g), AC_OK);
    ac_embedding(ac_parameter(g, "eight", SHAPE(8, 2), NULL), from);
    assert_int_equal(ac_graph_status(g), AC_OK);
    ac_embedding(ac_parameter(g, "five", SHAPE(5, 2), NULL), from);
    assert_int_equal(ac_graph_status(g), AC_ERROR_ARGUMENT);
    assert_contains(ac_graph_message(g), moved == 3 ? "ids of slice may be up to 7"
                                                    : "may be up to 5, and have to be below 5");
    ac_graph_free(g);
  }
}

static void shapes_of_reductions(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH_TIMES(2), 6, 9, 12));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(4, 3), NULL);
  assert_shape(ac_sum(x, AC_AXES(2), false), SHAPE(AC_BATCH_TIMES(2), 6, 12));
  assert_shape(ac_sum(x, AC_AXES(-1, 1), true), SHAPE(AC_BATCH_TIMES(2), 1, 9, 1));
  assert_shape(ac_sum(x, AC_ALL_AXES, false), SHAPE(AC_BATCH_TIMES(2)));
  assert_shape(ac_mean(w, AC_AXES(0), false), SHAPE(3));
  assert_shape(ac_mean(w, AC_ALL_AXES, false), SHAPE(1));
  assert_shape(ac_softmax_over(x, 1), SHAPE(AC_BATCH_TIMES(2), 6, 9, 12));
  assert_shape(ac_cumulative_sum(x, -2), SHAPE(AC_BATCH_TIMES(2), 6, 9, 12));
  ac_tensor *ids = NULL;
  assert_shape(ac_top_k(x, 5, &ids), SHAPE(AC_BATCH_TIMES(2), 6, 9, 5));
  assert_shape(ids, SHAPE(AC_BATCH_TIMES(2), 6, 9, 5));
  ids = ac_argmax(x, -1, false);
  assert_int_equal(ids->dtype, AC_I32);
  assert_shape(ac_embedding(ac_parameter(g, "t", SHAPE(12, 4), NULL), ids),
               SHAPE(AC_BATCH_TIMES(2), 6, 9, 4));
  assert_int_equal(ac_graph_status(g), AC_OK);
  ac_graph_free(g);
}

static void shapes_of_lines_and_volumes(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *line = ac_input(g, "line", AC_F32, SHAPE(AC_BATCH, 6, 31)),
            *volume = ac_input(g, "volume", AC_F32, SHAPE(AC_BATCH, 6, 5, 9, 12)),
            *w = ac_parameter(g, "w", SHAPE(4, 6, 4), NULL),
            *turned = ac_parameter(g, "turned", SHAPE(6, 4, 4), NULL),
            *cube = ac_parameter(g, "cube", SHAPE(4, 3, 3, 3, 2), NULL);
  assert_shape(ac_conv1d(line, w, NULL, NULL), SHAPE(AC_BATCH, 4, 28));
  assert_shape(ac_conv1d(line, w, NULL, &(ac_conv1d_desc){.same = true}), SHAPE(AC_BATCH, 4, 31));
  assert_shape(ac_conv_transpose1d(line, turned, NULL,
                                   &(ac_conv_transpose1d_desc){.stride = 2, .padding = 1}),
               SHAPE(AC_BATCH, 4, 62));
  assert_shape(ac_conv3d(volume, cube, NULL,
                         &(ac_conv3d_desc){.stride = {2, 1, 3}, .padding = {1, 0, 0}, .groups = 2}),
               SHAPE(AC_BATCH, 4, 3, 7, 4));
  const ac_pool1d_desc fives = {.kernel = 5, .ceil = true};
  assert_shape(ac_max_pool1d(line, &fives), SHAPE(AC_BATCH, 6, 7));
  assert_shape(ac_average_pool1d(line, &fives), SHAPE(AC_BATCH, 6, 7));
  const ac_pool3d_desc twos = {.kernel = {2, 2, 3}};
  assert_shape(ac_max_pool3d(volume, &twos), SHAPE(AC_BATCH, 6, 2, 4, 4));
  assert_shape(ac_average_pool3d(volume, &twos), SHAPE(AC_BATCH, 6, 2, 4, 4));
  assert_shape(ac_adaptive_max_pool(volume, AC_SHAPE(5, 2, 7)), SHAPE(AC_BATCH, 6, 5, 2, 7));
  assert_shape(ac_adaptive_average_pool(line, AC_SHAPE(4)), SHAPE(AC_BATCH, 6, 4));
  assert_shape(ac_global_max_pool(volume), SHAPE(AC_BATCH, 6));
  assert_shape(ac_global_average_pool(line), SHAPE(AC_BATCH, 6));
  assert_int_equal(ac_graph_status(g), AC_OK);
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
  const ac_pool2d_desc pairs = {.kernel = {2, 3}},
                       threes = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  assert_shape(ac_max_pool2d(x, &pairs), SHAPE(AC_BATCH, 6, 4, 4));
  assert_shape(ac_average_pool2d(x, &threes), SHAPE(AC_BATCH, 6, 5, 6));
  assert_shape(ac_global_average_pool(x), SHAPE(AC_BATCH, 6));
  assert_shape(ac_global_max_pool(x), SHAPE(AC_BATCH, 6));
  const ac_pool2d_desc up = {.kernel = {2, 5}, .more_padding = {1, 0}, .ceil = true};
  assert_shape(ac_max_pool2d(x, &up), SHAPE(AC_BATCH, 6, 5, 3));
  assert_shape(ac_adaptive_average_pool(x, AC_SHAPE(3, 0)), SHAPE(AC_BATCH, 6, 3, 12));
  ac_tensor *even = ac_parameter(g, "even", SHAPE(4, 3, 2, 4), NULL);
  const ac_conv2d_desc same = {.dilation = {1, 2}, .groups = 2, .same = true};
  assert_shape(ac_conv2d(x, even, NULL, &same), SHAPE(AC_BATCH, 4, 9, 12));
  const ac_conv2d_desc after = {.groups = 2, .more_padding = {3, -4}};
  assert_shape(ac_conv2d(x, w, NULL, &after), SHAPE(AC_BATCH, 4, 10, 4));
  ac_tensor *turned = ac_parameter(g, "turned", SHAPE(6, 2, 3, 5), NULL);
  const ac_conv_transpose2d_desc larger = {
      .stride = {2, 3}, .padding = {1, 0}, .groups = 3, .output_padding = {1, 2}};
  assert_shape(ac_conv_transpose2d(x, turned, NULL, &larger), SHAPE(AC_BATCH, 6, 18, 40));
  assert_shape(ac_upsample_nearest2d(x, 3), SHAPE(AC_BATCH, 6, 27, 36));
  const ac_resize2d_desc half = {.factor = {0.5, 1.1}};
  assert_shape(ac_resize2d(x, NULL), SHAPE(AC_BATCH, 6, 9, 12));
  assert_shape(ac_resize2d(x, &half), SHAPE(AC_BATCH, 6, 4, 13));
  assert_shape(ac_resize2d(x, &(ac_resize2d_desc){AC_RESIZE_BICUBIC, .size = {1, 30}}),
               SHAPE(AC_BATCH, 6, 1, 30));
  assert_shape(ac_local_response_norm(x, NULL), SHAPE(AC_BATCH, 6, 9, 12));
  assert_shape(ac_local_response_norm(x, &(ac_local_response_norm_desc){.size = 4}),
               SHAPE(AC_BATCH, 6, 9, 12));
  assert_shape(ac_drop_path(x, 0.5f), SHAPE(AC_BATCH, 6, 9, 12));
  assert_shape(ac_layer_norm_over(x, NULL, NULL, AC_AXES(1), 0), SHAPE(AC_BATCH, 6, 9, 12));
  assert_shape(ac_layer_norm_over(x, NULL, NULL, AC_ALL_AXES, 0), SHAPE(AC_BATCH, 6, 9, 12));
  assert_shape(ac_rms_norm_over(x, ac_parameter(g, "g", SHAPE(6, 12), NULL), AC_AXES(-1, 1), 0),
               SHAPE(AC_BATCH, 6, 9, 12));
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
  assert_string_equal(
      ac_graph_message(g),
      "linear: it takes x f32 [..., in], weight f32 [out, in], bias f32 [out] or NULL; x is input "
      "\"x\" f32 [B, 4], weight is parameter \"w\" f32 [3, 5], bias is NULL");
  ac_plan *plan;
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_refused(ac_plan_create(&plan, g, device, &(ac_plan_desc){0}), AC_ERROR_ARGUMENT,
                 "linear: it takes x");
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
    ac_graph_scope(g, "the.scope");                                  \
    (void)x, (void)ids, (void)w, (void)b;                            \
    assert_int_equal(ac_graph_status(g), AC_OK);                     \
    statement;                                                       \
    assert_int_not_equal(ac_graph_status(g), AC_OK);                 \
    assert_contains(ac_graph_message(g), text);                      \
    assert_null(strchr(ac_graph_message(g), '\n'));                  \
    ac_graph_free(g);                                                \
  } while (0)

static char tried[1 << 15]; /* builders that were given something wrong: " linear relu ..." */

/* What every builder's sentence begins with, and that it says what tensor `given` is. */
static void assert_names(const char *message, const char *builder, const char *given) {
  char begin[64];
  snprintf(begin, sizeof begin, "%s (the.scope): ", builder);
  if (strncmp(message, begin, strlen(begin)) != 0)
    fail_msg("\"%s\" does not begin with \"%s\"", message, begin);
  const char *tensors = strstr(message, "; ");
  assert_non_null(tensors);
  assert_contains(tensors, given);
  strcat(strcat(tried, " "), builder);
}

#define MISBUILT(builder, text, given, call)           \
  REFUSED(text, {                                      \
    assert_null(call);                                 \
    assert_names(ac_graph_message(g), builder, given); \
  })

#define X "x is input \"x\" f32 [B, 6, 4]"
#define IDS(name) name " is input \"ids\" i32 [B, 6]"
#define W(name) name " is parameter \"w\" f32 [4, 4]"
#define X2(name) name " is input \"x\" f32 [B, 6, 4]"
#define B(name) name " is parameter \"b\" f32 [4]"

static void wrong_operands_are_named(void **state) {
  (void)state;
  MISBUILT("linear", "weight is missing", X, ac_linear(x, NULL, NULL, AC_OUT_IN));
  MISBUILT("linear", "it takes x f32 [..., in], weight f32 [out, in]", W("bias"),
           ac_linear(x, w, w, AC_OUT_IN));
  MISBUILT("linear", "weight f32 [in, out]", IDS("bias"), ac_linear(x, w, ids, AC_IN_OUT));
  MISBUILT("linear", "bias f32 [out] or NULL", "bias is parameter \"i\" f32 [3]",
           ac_linear(x, w, ac_parameter(g, "i", SHAPE(3), NULL), AC_OUT_IN));
  MISBUILT("linear", "unknown weight layout 7", W("weight"), ac_linear(x, w, b, (ac_layout)7));
  MISBUILT("linear", "x f32", "x is the result of relu (the.scope) f32 [B, 6, 4]",
           ac_linear(ac_relu(x), b, NULL, AC_OUT_IN));
  MISBUILT("linear", "x f32", "x is input \"x\" f32 [B, 24]",
           ac_linear(ac_reshape(x, SHAPE(AC_BATCH, 24)), w, NULL, AC_OUT_IN));
  MISBUILT("matmul", "it takes a f32 [..., M, K], b f32 [..., K, N]", W("b"),
           ac_matmul(x, w, false, false));
  MISBUILT("matmul", "a f32 [..., K, M], b f32 [..., N, K]", "a is input \"x\"",
           ac_matmul(x, x, true, true));
  MISBUILT("add", "it takes a f32, b f32", IDS("b"), ac_add(x, ids));
  MISBUILT("multiply", "the shapes cannot be broadcast", "b is parameter \"c\" f32 [6]",
           ac_multiply(x, ac_parameter(g, "c", SHAPE(6), NULL)));
  MISBUILT("embedding", "it takes table f32 [V, C], ids i32", B("table"), ac_embedding(b, ids));
  MISBUILT("embedding", "it takes", "ids is input \"x\" f32", ac_embedding(w, x));
  MISBUILT("layer_norm", "gamma f32 [C]", W("gamma"), ac_layer_norm(x, w, b, 0));
  MISBUILT("layer_norm", "beta f32 [C] or NULL", W("beta"), ac_layer_norm(x, b, w, 0));
  MISBUILT("layer_norm", "epsilon is nan", X, ac_layer_norm(x, b, b, NAN));
  MISBUILT("rms_norm", "it takes", W("gamma"), ac_rms_norm(x, w, 0));
  MISBUILT("rms_norm", "epsilon is -1", X, ac_rms_norm(x, b, -1));
  MISBUILT("layer_norm_over", "axis 0 is the batch", X,
           ac_layer_norm_over(x, NULL, NULL, AC_AXES(0), 0));
  MISBUILT("layer_norm_over", "axis -2 is there twice", X,
           ac_layer_norm_over(x, NULL, NULL, AC_AXES(1, -2), 0));
  MISBUILT("layer_norm_over", "axis 3 is none of its axes", X,
           ac_layer_norm_over(x, NULL, NULL, AC_AXES(3), 0));
  MISBUILT("layer_norm_over", "1 axes at NULL", X, ac_layer_norm_over(x, NULL, NULL, 1, NULL, 0));
  MISBUILT("layer_norm_over", "beta f32 [the axes] or NULL", B("beta"),
           ac_layer_norm_over(x, NULL, b, AC_AXES(1), 0));
  MISBUILT("rms_norm_over", "it takes", W("gamma"), ac_rms_norm_over(x, w, AC_AXES(1), 0));
  MISBUILT("rms_norm_over", "epsilon is nan", X, ac_rms_norm_over(x, NULL, AC_AXES(1), NAN));
  MISBUILT("rms_norm_over", "there is no axis but the batch", "x is input \"t\"",
           ac_rms_norm_over(ac_input(g, "t", AC_F32, SHAPE(AC_BATCH)), NULL, AC_ALL_AXES, 0));
  MISBUILT("local_response_norm", "size -1, alpha 0.0001, beta 0.75 and k 1", X,
           ac_local_response_norm(x, &(ac_local_response_norm_desc){.size = -1}));
  MISBUILT("local_response_norm", "it takes x f32 [B, C, ...]", B("x"),
           ac_local_response_norm(b, NULL));
  MISBUILT("group_norm", "6 channels cannot be divided into 4 groups", X,
           ac_group_norm(x, NULL, NULL, 4, 0));
  MISBUILT("group_norm", "6 channels cannot be divided into 0 groups", "gamma is NULL",
           ac_group_norm(x, NULL, NULL, 0, 0));
  MISBUILT("sample_norm", "beta f32 [C] or NULL", B("beta"), ac_sample_norm(x, NULL, b, 0));
  MISBUILT("instance_norm", "it takes x f32 [B, C, ...]", IDS("x"),
           ac_instance_norm(ids, NULL, NULL, 0));
  MISBUILT("instance_norm", "epsilon is inf", X, ac_instance_norm(x, NULL, NULL, INFINITY));
  MISBUILT("batch_norm", "running_mean is missing", B("running_variance"),
           ac_batch_norm(x, NULL, NULL, NULL, b, NULL));
  MISBUILT("batch_norm", "running_mean f32 [C], a frozen parameter", B("running_mean"),
           ac_batch_norm(x, NULL, NULL, b, b, NULL));
  MISBUILT("weight_standardisation", "it takes weight f32 [O, ...]", "weight is input \"x\"",
           ac_weight_standardisation(x, 0));
}

/* [B, length, count, 3] */
static ac_tensor *heads(ac_graph *g, const char *name, int64_t length, int64_t count) {
  return ac_input(g, name, AC_F32, SHAPE(AC_BATCH, length, count, 3));
}

static void wrong_elements_are_named(void **state) {
  (void)state;
  MISBUILT("leaky_relu", "the slope is -0.1", X, ac_leaky_relu(x, -0.1f));
  MISBUILT("gelu", "unknown kind 9", X, ac_gelu(x, (ac_gelu_kind)9));
  MISBUILT("scale", "the factor inf is not finite", X, ac_scale(x, INFINITY));
  MISBUILT("square", "it takes x f32", IDS("x"), ac_square(ids));
  MISBUILT("sqrt", "it takes x f32", IDS("x"), ac_sqrt(ids));
  MISBUILT("rsqrt", "it takes x f32", IDS("x"), ac_rsqrt(ids));
  MISBUILT("reciprocal", "it takes x f32", IDS("x"), ac_reciprocal(ids));
  MISBUILT("abs", "it takes x f32", IDS("x"), ac_abs(ids));
  MISBUILT("sign", "it takes x f32", IDS("x"), ac_sign(ids));
  MISBUILT("exp", "it takes x f32", IDS("x"), ac_exp(ids));
  MISBUILT("expm1", "it takes x f32", IDS("x"), ac_expm1(ids));
  MISBUILT("log", "it takes x f32", IDS("x"), ac_log(ids));
  MISBUILT("log1p", "it takes x f32", IDS("x"), ac_log1p(ids));
  MISBUILT("sin", "it takes x f32", IDS("x"), ac_sin(ids));
  MISBUILT("cos", "it takes x f32", IDS("x"), ac_cos(ids));
  MISBUILT("erf", "it takes x f32", IDS("x"), ac_erf(ids));
  MISBUILT("softplus", "it takes x f32", IDS("x"), ac_softplus(ids));
  MISBUILT("log_sigmoid", "it takes x f32", IDS("x"), ac_log_sigmoid(ids));
  MISBUILT("relu6", "it takes x f32", IDS("x"), ac_relu6(ids));
  MISBUILT("selu", "it takes x f32", IDS("x"), ac_selu(ids));
  MISBUILT("mish", "it takes x f32", IDS("x"), ac_mish(ids));
  MISBUILT("hard_sigmoid", "it takes x f32", IDS("x"), ac_hard_sigmoid(ids));
  MISBUILT("hard_swish", "it takes x f32", IDS("x"), ac_hard_swish(ids));
  MISBUILT("softsign", "it takes x f32", IDS("x"), ac_softsign(ids));
  MISBUILT("not", "it takes x f32", IDS("x"), ac_not(ids));
  MISBUILT("subtract", "it takes a f32, b f32", IDS("b"), ac_subtract(x, ids));
  MISBUILT("divide", "it takes a f32, b f32", IDS("b"), ac_divide(x, ids));
  MISBUILT("maximum", "it takes a f32, b f32", IDS("b"), ac_maximum(x, ids));
  MISBUILT("minimum", "it takes a f32, b f32", IDS("b"), ac_minimum(x, ids));
  MISBUILT("less", "it takes a f32, b f32", IDS("b"), ac_less(x, ids));
  MISBUILT("equal", "it takes a f32, b f32", IDS("b"), ac_equal(x, ids));
  MISBUILT("geglu", "it takes gate f32, up f32", IDS("up"), ac_geglu(x, ids));
  MISBUILT("add_scalar", "the value nan is not finite", X, ac_add_scalar(x, NAN));
  MISBUILT("elu", "the alpha is -1", X, ac_elu(x, -1));
  MISBUILT("clamp", "the low bound 2 is above the high bound 1", X, ac_clamp(x, 2, 1));
  MISBUILT("clamp", "the high bound is not a number", X, ac_clamp(x, 2, NAN));
  MISBUILT("where", "it takes condition f32, a f32, b f32", IDS("condition"), ac_where(ids, x, x));
  MISBUILT("power", "the shapes cannot be broadcast", "b is input \"rows\" f32 [B*2, 6, 4]",
           ac_power(x, ac_input(g, "rows", AC_F32, SHAPE(AC_BATCH_TIMES(2), 6, 4))));
  MISBUILT("swiglu", "the shapes cannot be broadcast", "gate is input \"flat\" f32 [B, 4]",
           ac_swiglu(ac_input(g, "flat", AC_F32, SHAPE(AC_BATCH, 4)), x));
  MISBUILT("formula", "column 5", "operands[0] is input \"x\"", ac_formula(g, "a + )", &x, 1));
  MISBUILT("causal_attention", "it takes qkv f32 [B, T, 3 * C]", "qkv is input \"x\"",
           ac_causal_attention(x, &(ac_attention_desc){.heads = 1}));
  MISBUILT("causal_attention", "needs at least one head", "qkv is", ac_causal_attention(x, NULL));
  MISBUILT("causal_attention", "3 heads do not divide the width 4", "qkv is input \"q\"",
           ac_causal_attention(ac_input(g, "q", AC_F32, SHAPE(AC_BATCH, 6, 12)),
                               &(ac_attention_desc){.heads = 3}));
  MISBUILT("causal_attention", "4 heads and twice 1 of keys do not divide the width 10",
           "qkv is input \"q\"",
           ac_causal_attention(ac_input(g, "q", AC_F32, SHAPE(AC_BATCH, 6, 10)),
                               &(ac_attention_desc){.heads = 4, .key_heads = 1}));
  MISBUILT("attention", "it takes q f32 [B, Tq, H, D], k f32 [B, Tk, Hkv, D] or NULL", X2("q"),
           ac_attention(x, NULL, NULL, NULL));
  MISBUILT("attention", "v f32 [B, Tk, Hkv, Dv] or NULL", "v is NULL",
           ac_attention(heads(g, "q", 6, 2), heads(g, "k", 6, 2), NULL, NULL));
  MISBUILT("attention", "v f32 [B, Tk, Hkv, Dv]", "v is input \"v\" f32 [B, 5, 2, 3]",
           ac_attention(heads(g, "q", 6, 2), heads(g, "k", 6, 2), heads(g, "v", 5, 2), NULL));
  MISBUILT("attention", "3 heads and key_heads 2; the first must be a multiple of the second",
           "q is input \"q\" f32 [B, 6, 3, 3]",
           ac_attention(heads(g, "q", 6, 3), heads(g, "k", 6, 2), heads(g, "v", 6, 2), NULL));
  MISBUILT("attention", "0 heads and key_heads 0", "q is input \"q\"",
           ac_attention(heads(g, "q", 6, 3), NULL, NULL, NULL));
  MISBUILT("attention", "q have heads + 2 key_heads heads", "q is input \"q\"",
           ac_attention(heads(g, "q", 6, 3), NULL, NULL, &(ac_attention_desc){.heads = 2}));
  MISBUILT(
      "attention", "bias f32 [H or 1, Tq, Tk]", "bias is parameter \"w\" f32 [4, 4]",
      ac_attention(heads(g, "q", 6, 6), NULL, NULL, &(ac_attention_desc){.heads = 2, .bias = w}));
  MISBUILT("attention", "lengths i32 [B]", "lengths is input \"ids\" i32 [B, 6]",
           ac_attention(heads(g, "q", 6, 6), NULL, NULL,
                        &(ac_attention_desc){.heads = 2, .lengths = ids}));
  MISBUILT("attention", "segments i32 [B, Tq]", "segments is input \"ids\" i32 [B, 6]",
           ac_attention(heads(g, "q", 5, 6), NULL, NULL,
                        &(ac_attention_desc){.heads = 2, .segments = ids}));
  MISBUILT("attention", "key_segments come with segments", "key_segments is input \"ids\"",
           ac_attention(heads(g, "q", 6, 6), NULL, NULL,
                        &(ac_attention_desc){.heads = 2, .key_segments = ids}));
  MISBUILT("attention", "segments alone are for as many keys as queries", "segments is input",
           ac_attention(heads(g, "q", 6, 2), heads(g, "k", 5, 2), heads(g, "v", 5, 2),
                        &(ac_attention_desc){.segments = ids}));
  MISBUILT("attention", "at_end has no meaning unless it is causal", "q is input",
           ac_attention(heads(g, "q", 6, 6), NULL, NULL,
                        &(ac_attention_desc){.heads = 2, .at_end = true}));
  MISBUILT("attention", "soft_cap must be finite and, as window, not negative", "q is input",
           ac_attention(heads(g, "q", 6, 6), NULL, NULL,
                        &(ac_attention_desc){.heads = 2, .window = -1}));
  MISBUILT("attention", "dropout is 1 and scale is 0", "q is input",
           ac_attention(heads(g, "q", 6, 6), NULL, NULL,
                        &(ac_attention_desc){.heads = 2, .dropout = 1}));
  MISBUILT("dropout", "p is 1", X, ac_dropout(x, 1));
  MISBUILT("drop_path", "p is -0.5", X, ac_drop_path(x, -0.5f));
  MISBUILT("drop_path", "it takes x f32 [B, ...]", W("x"), ac_drop_path(w, 0.5f));
  MISBUILT("dropout", "it takes x f32 [B, ...]", W("x"), ac_dropout(w, 0.5f));
}

static void wrong_rotations_are_named(void **state) {
  (void)state;
#define ROPE(...)                                        \
  ac_rope(ac_reshape(x, SHAPE(AC_BATCH, 6, 2, 2)), NULL, \
          &(ac_rope_desc){.base = 10000, __VA_ARGS__})
#define PAIR "x is input \"x\" f32 [B, 6, 2, 2]"
  MISBUILT("rope", "it takes x f32 [B, T, H, D], positions i32 [B, T] or NULL", X,
           ac_rope(x, ids, NULL));
  MISBUILT("rope", "it takes", IDS("positions"),
           ac_rope(ac_reshape(x, SHAPE(AC_BATCH, 3, 4, 2)), ids, NULL));
  MISBUILT("rope", "it takes", "positions is input \"x\"",
           ac_rope(ac_reshape(x, SHAPE(AC_BATCH, 6, 2, 2)), x, NULL));
  MISBUILT("rope", "cannot turn 1 elements of 1 in pairs", "x is input \"x\" f32 [B, 6, 4, 1]",
           ac_rope(ac_reshape(x, SHAPE(AC_BATCH, 6, 4, 1)), ids, NULL));
  MISBUILT("rope", "cannot turn 4 elements of 2", PAIR, ROPE(.dimensions = 4));
  MISBUILT("rope", "cannot turn -2 elements of 2", PAIR, ROPE(.dimensions = -2));
  MISBUILT("rope", "offset is -1", PAIR, ROPE(.offset = -1));
  MISBUILT("rope", "offset is 2147483642; positions must be below 2^31 - 1", PAIR,
           ROPE(.offset = INT32_MAX - 5));
  MISBUILT("rope", "scaling is unknown", PAIR, ROPE(.scaling = (ac_rope_scaling)3));
  MISBUILT("rope", "factor must be at least 1", PAIR,
           ROPE(.scaling = AC_ROPE_LINEAR, .factor = NAN));
  MISBUILT("rope", "high_freq_factor must be above low_freq_factor", PAIR,
           ROPE(.scaling = AC_ROPE_LLAMA3, .low_freq_factor = 4));
  MISBUILT("rope", "base must be at least 1", PAIR,
           ac_rope(ac_reshape(x, SHAPE(AC_BATCH, 6, 2, 2)), NULL, &(ac_rope_desc){.base = 0.5}));
#undef ROPE
#undef PAIR
}

static void wrong_movements_and_layers_are_named(void **state) {
  (void)state;
  MISBUILT("reshape", "other elements", X, ac_reshape(x, SHAPE(AC_BATCH, 7, 4)));
  MISBUILT("reshape", "other elements", X, ac_reshape(x, SHAPE(24)));
  MISBUILT("reshape", "other elements", X, ac_reshape(x, SHAPE(1LL << 40, 1LL << 40)));
  MISBUILT("reshape", "other elements", X, ac_reshape(x, SHAPE(INT64_MIN, 24)));
  MISBUILT("reshape", "rank is 7", X, ac_reshape(x, SHAPE(1, 1, 1, 1, 1, 1, 1)));
  MISBUILT("transpose", "cannot swap axes 1 and 0", X, ac_transpose(x, 1, 0));
  MISBUILT("transpose", "cannot swap axes -3 and 1", X, ac_transpose(x, -3, 1));
  MISBUILT("slice", "cannot take 1 from 0 on along axis -3", X, ac_slice(x, -3, 0, 1));
  MISBUILT("concat", "there is no axis -4", "parts[0] is input \"x\"", ac_concat(g, &x, 1, -4));
  MISBUILT("slice", "cannot take 3 from 4 on along axis 1", X, ac_slice(x, 1, 4, 3));
  MISBUILT("slice", "cannot take 1 from 0 on along axis 0", X, ac_slice(x, 0, 0, 1));
  MISBUILT("slice", "cannot take", X, ac_slice(x, 1, INT64_MAX, INT64_MAX));
  MISBUILT("slice_step", "cannot take 3 from 0 on in steps of 3 along axis 1", X,
           ac_slice_step(x, 1, 0, 3, 3));
  MISBUILT("slice_step", "cannot take 2 from 5 on in steps of 0", X, ac_slice_step(x, 1, 5, 2, 0));
  MISBUILT("slice_step", "cannot take 4 from 5 on in steps of -2", X,
           ac_slice_step(x, 1, 5, 4, -2));
  MISBUILT("slice_step", "cannot take", X, ac_slice_step(x, 1, 5, 2, INT64_MIN));
  MISBUILT("permute", "2 axes of 3", X, ac_permute(x, AC_AXES(0, 1)));
  MISBUILT("permute", "3 axes at NULL of 3", X, ac_permute(x, 3, NULL));
  MISBUILT("permute", "axis 2 comes twice", X, ac_permute(x, AC_AXES(0, 2, 2)));
  MISBUILT("permute", "axis 3 is none of x", X, ac_permute(x, AC_AXES(0, 3, 1)));
  MISBUILT("permute", "the batch must stay", X, ac_permute(x, AC_AXES(1, 0, 2)));
  MISBUILT("expand", "it takes x f32", IDS("x"), ac_expand(ids, SHAPE(AC_BATCH, 6)));
  MISBUILT("expand", "x cannot be repeated", X, ac_expand(x, SHAPE(AC_BATCH, 6, 8)));
  MISBUILT("expand", "x cannot be repeated", X, ac_expand(x, SHAPE(2, 6, 4)));
  MISBUILT("expand", "x cannot be repeated", X, ac_expand(x, SHAPE(AC_BATCH, 2, 6, 4)));
  MISBUILT("expand", "x cannot be repeated", X, ac_expand(x, 3, NULL));
  MISBUILT("expand", "x cannot be repeated", W("x"), ac_expand(w, SHAPE(0, 4, 4)));
  MISBUILT("expand", "x cannot be repeated", W("x"), ac_expand(w, SHAPE(AC_BATCH, 4)));
  MISBUILT("flip", "axis 0 is none of x, or the batch", X, ac_flip(x, AC_AXES(0)));
  MISBUILT("flip", "axis -1 comes twice", X, ac_flip(x, AC_AXES(2, -1)));
  MISBUILT("flip", "1 axes at NULL", X, ac_flip(x, 1, NULL));
  MISBUILT("pad", "it takes x f32", IDS("x"), ac_pad(ids, NULL));
  MISBUILT("pad", "unknown mode 3", X, ac_pad(x, &(ac_pad_desc){.mode = (ac_pad_mode)3}));
  MISBUILT("pad", "the value nan is not finite", X, ac_pad(x, &(ac_pad_desc){.value = NAN}));
  MISBUILT("pad", "axis 0, padded by 1 and 0, is the batch", X,
           ac_pad(x, &(ac_pad_desc){.before = {1}}));
  MISBUILT("pad", "axis 3, padded by 0 and 1, is none of x", X,
           ac_pad(x, &(ac_pad_desc){.after = {0, 0, 0, 1}}));
  MISBUILT("pad", "axis 1, padded by -1 and 0, has less than nothing", X,
           ac_pad(x, &(ac_pad_desc){.before = {0, -1}}));
  MISBUILT("pad", "is too short to be reflected", X,
           ac_pad(x, &(ac_pad_desc){.after = {0, 6}, .mode = AC_PAD_REFLECT}));
  MISBUILT("pad", "beyond any device", X, ac_pad(x, &(ac_pad_desc){.after = {0, INT64_MAX}}));
  MISBUILT("pixel_shuffle", "it takes x f32 [B, C, H, W]", X, ac_pixel_shuffle(x, 2));
  MISBUILT("pixel_unshuffle", "it takes x f32 [B, C, H, W]", X, ac_pixel_unshuffle(x, 2));
  MISBUILT("gather", "it takes x f32 or i32, ids i32", "ids is input \"x\"", ac_gather(x, x, 1));
  MISBUILT("gather", "there is no axis 0", IDS("ids"), ac_gather(x, ids, 0));
  MISBUILT("gather", "ids must have the axes of x before axis 2", X,
           ac_gather(x, ac_slice(ids, 1, 0, 5), 2));
  MISBUILT("gather", "ids must have the axes of x before axis 1", W("x"), ac_gather(w, ids, 1));
  MISBUILT("index_select", "it takes x f32 or i32, ids i32 [n]", IDS("ids"),
           ac_index_select(x, ids, 1));
  MISBUILT("index_select", "there is no axis 3", X,
           ac_index_select(x, ac_constant(g, "c", AC_I32, SHAPE(1), (const int32_t[]){0}), 3));
  MISBUILT("index_select", "ids have the batch", X,
           ac_index_select(x, ac_input(g, "one", AC_I32, SHAPE(AC_BATCH)), 1));
  MISBUILT("scatter_add", "it takes values f32, ids i32", IDS("values"),
           ac_scatter_add(ids, ids, 1, 3));
  MISBUILT("scatter_add", "there is no axis -3", IDS("ids"), ac_scatter_add(x, ids, -3, 3));
  MISBUILT("scatter_add", "ids must have the axes of values up to axis 2", IDS("ids"),
           ac_scatter_add(x, ids, 2, 3));
  MISBUILT("scatter_add", "a result of 0 along axis 1", IDS("ids"), ac_scatter_add(x, ids, 1, 0));
  MISBUILT("one_hot", "it takes ids i32", X2("ids"), ac_one_hot(x, 3));
  MISBUILT("one_hot", "0 classes", IDS("ids"), ac_one_hot(ids, 0));
  MISBUILT("embedding_bag",
           "it takes table f32 [V, C], ids i32 [..., L], lengths i32 [...] or NULL", IDS("lengths"),
           ac_embedding_bag(w, ids, ids, NULL, NULL));
  MISBUILT("embedding_bag", "unknown mode 3", IDS("ids"),
           ac_embedding_bag(w, ids, NULL, NULL, &(ac_embedding_bag_desc){(ac_bag_mode)3}));
  MISBUILT("embedding_bag", "only a sum can have weights", IDS("ids"),
           ac_embedding_bag(w, ids, NULL, ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH, 6)),
                            &(ac_embedding_bag_desc){AC_BAG_MEAN}));
  MISBUILT("stop_gradient", "x is a loss", "x is a loss",
           ac_stop_gradient(ac_cross_entropy(x, ids, NULL, NULL)));
  MISBUILT("scale", "x is a loss", "x is a loss",
           ac_scale(ac_cross_entropy(x, ids, NULL, NULL), 2));
  MISBUILT("reshape", "x is a loss", "x is a loss",
           ac_reshape(ac_cross_entropy(x, ids, NULL, NULL), SHAPE(2, 4)));
  MISBUILT("hint", "a hint is for results of ops", "tensor is input \"x\"",
           ac_tensor_hint(x, AC_KEEP));
  MISBUILT("hint", "contradict", "tensor is the result of relu (the.scope)",
           ac_tensor_hint(ac_tensor_hint(ac_relu(x), AC_KEEP), AC_RECOMPUTE));
  MISBUILT("relu", "it takes x f32", IDS("x"), ac_relu(ids));
  MISBUILT("gelu", "it takes x f32", IDS("x"), ac_gelu(ids, AC_GELU_ERF));
  MISBUILT("silu", "it takes x f32", IDS("x"), ac_silu(ids));
  MISBUILT("leaky_relu", "it takes x f32", IDS("x"), ac_leaky_relu(ids, 0));
  MISBUILT("sigmoid", "it takes x f32", IDS("x"), ac_sigmoid(ids));
  MISBUILT("tanh", "it takes x f32", IDS("x"), ac_tanh(ids));
  MISBUILT("softmax", "it takes x f32", IDS("x"), ac_softmax(ids));
  MISBUILT("dense", "the layer has no name", X, ac_dense(g, NULL, x, 2, NULL));
  MISBUILT("lora_linear", "the layer has no name", X,
           ac_lora_linear(g, NULL, x, w, NULL, AC_OUT_IN, &(ac_lora_desc){.rank = 2}));
  MISBUILT("lora_linear", "dropout must be at least 0 and below 1", X,
           ac_lora_linear(g, "l", x, w, NULL, AC_OUT_IN, &(ac_lora_desc){.rank = 2, .dropout = 1}));
  MISBUILT("lora_linear", "it takes x f32 [..., in]", IDS("x"),
           ac_lora_linear(g, "l", ids, w, NULL, AC_OUT_IN, &(ac_lora_desc){.rank = 2}));
  MISBUILT("conv2d_layer", "the layer has no name", X, ac_conv2d_layer(g, "", x, 2, 3, NULL));
  MISBUILT("conv1d_layer", "the layer has no name", X, ac_conv1d_layer(g, "", x, 2, 3, NULL));
  MISBUILT("conv3d_layer", "the layer has no name", X, ac_conv3d_layer(g, "", x, 2, 3, NULL));
  MISBUILT("conv_transpose1d_layer", "the layer has no name", X,
           ac_conv_transpose1d_layer(g, "", x, 2, 3, NULL));
  MISBUILT("conv_transpose2d_layer", "the layer has no name", X,
           ac_conv_transpose2d_layer(g, "", x, 2, 3, NULL));
  MISBUILT("norm_layer", "the layer has no name", X, ac_norm_layer(g, NULL, x, NULL));
  MISBUILT("embedding_layer", "the layer has no name", IDS("ids"),
           ac_embedding_layer(g, NULL, ids, 2, 3, NULL));
  MISBUILT("residual", "the layer has no name", X, ac_residual(g, NULL, x, x));
}

static void wrong_reductions_are_named(void **state) {
  (void)state;
  MISBUILT("sum", "it takes x f32", IDS("x"), ac_sum(ids, AC_AXES(1), false));
  MISBUILT("sum", "axis 0 is the batch", X, ac_sum(x, AC_AXES(1, 0), false));
  MISBUILT("sum", "axis -3 is the batch", X, ac_sum(x, AC_AXES(-3), false));
  MISBUILT("sum", "axis 3 is none of x", X, ac_sum(x, AC_AXES(3), false));
  MISBUILT("sum", "axis -1 comes twice", X, ac_sum(x, AC_AXES(2, -1), false));
  MISBUILT("sum", "2 axes at NULL", X, ac_sum(x, 2, NULL, false));
  MISBUILT("sum", "-1 axes at", X, ac_sum(x, -1, NULL, false));
  MISBUILT("sum", "the batch is the only dimension", "x is the result of reduce",
           ac_sum(ac_sum(x, AC_ALL_AXES, false), AC_ALL_AXES, false));
  MISBUILT("mean", "it takes x f32", IDS("x"), ac_mean(ids, AC_AXES(1), false));
  MISBUILT("max", "axis 5 is none of x", X, ac_max(x, AC_AXES(5), false));
  MISBUILT("min", "axis 5 is none of x", X, ac_min(x, AC_AXES(5), false));
  MISBUILT("logsumexp", "axis 0 is the batch", X, ac_logsumexp(x, AC_AXES(0), false));
  MISBUILT("softmax_over", "axis 0 is the batch", X, ac_softmax_over(x, 0));
  MISBUILT("log_softmax", "axis 3 is none of x", X, ac_log_softmax(x, 3));
  MISBUILT("cumulative_sum", "axis -4 is none of x", X, ac_cumulative_sum(x, -4));
  MISBUILT("argmax", "axis -3 is the batch", X, ac_argmax(x, -3, false));
  MISBUILT("top_k", "cannot take the 5 largest of 4", X, ac_top_k(x, 5, NULL));
  MISBUILT("embedding", "ids of argmax may be up to 5, and have to be below 5",
           "table is parameter",
           ac_embedding(ac_parameter(g, "t", SHAPE(5, 2), NULL), ac_argmax(x, 1, false)));
  MISBUILT("norm", "p is 0.5, not 1 or more", X, ac_norm(x, 0.5f, AC_AXES(1), false));
  MISBUILT("norm", "p is nan, not 1 or more", X, ac_norm(x, NAN, AC_AXES(1), false));
  MISBUILT("variance", "one element has no unbiased variance", "x is the result of reduce",
           ac_variance(ac_sum(x, AC_AXES(1), true), true, AC_AXES(1), false));
}

/* Of one direction of one layer, with two units. */
static ac_recurrent_weights recurrent_weights(ac_graph *g, int gates, int in) {
  return (ac_recurrent_weights){.input = ac_parameter(g, "w_ih", SHAPE(2 * gates, in), NULL),
                                .hidden = ac_parameter(g, "w_hh", SHAPE(2 * gates, 2), NULL),
                                .input_bias = ac_parameter(g, "b_ih", SHAPE(2 * gates), NULL),
                                .hidden_bias = ac_parameter(g, "b_hh", SHAPE(2 * gates), NULL)};
}

static void wrong_recurrent_layers_are_named(void **state) {
  (void)state;
  ac_recurrent_weights own = {NULL, NULL, NULL, NULL};
  ac_recurrent_state begin = {NULL, NULL};
  MISBUILT("lstm", "it takes x f32 [B, T, in], lengths i32 [B] or NULL", IDS("x"),
           (own = recurrent_weights(g, 4, 4), ac_lstm(ids, NULL, NULL, &own, NULL, NULL)));
  MISBUILT("lstm", "it takes x f32 [B, T, in], lengths i32 [B] or NULL", IDS("lengths"),
           (own = recurrent_weights(g, 4, 4), ac_lstm(x, ids, NULL, &own, NULL, NULL)));
  MISBUILT("lstm", "weights are NULL", X, ac_lstm(x, NULL, NULL, NULL, NULL, NULL));
  MISBUILT("lstm", "weights of each layer and direction are f32 input [G * H, in]", X,
           (own = recurrent_weights(g, 4, 5), ac_lstm(x, NULL, NULL, &own, NULL, NULL)));
  MISBUILT("lstm", "initial.cell f32 [B, layers * directions, H] or NULL",
           "initial.hidden is input",
           (own = recurrent_weights(g, 4, 4),
            begin.hidden = ac_input(g, "h", AC_F32, SHAPE(AC_BATCH, 1, 2)),
            ac_lstm(x, NULL, &begin, &own, NULL, NULL)));
  MISBUILT("gru", "initial.hidden f32 [B, layers * directions, H] or NULL", X2("initial.hidden"),
           (own = recurrent_weights(g, 3, 4), begin.hidden = x,
            ac_gru(x, NULL, &begin, &own, NULL, NULL)));
  MISBUILT("gru", "only ac_rnn has a choice of functions", X,
           (own = recurrent_weights(g, 3, 4),
            ac_gru(x, NULL, NULL, &own, &(ac_recurrent_desc){.function = AC_RNN_RELU}, NULL)));
  MISBUILT("rnn", "there are 1 to 32 layers", X,
           (own = recurrent_weights(g, 1, 4),
            ac_rnn(x, NULL, NULL, &own, &(ac_recurrent_desc){.layers = 33}, NULL)));
  MISBUILT("rnn", "unknown direction", X,
           (own = recurrent_weights(g, 1, 4),
            ac_rnn(x, NULL, NULL, &own, &(ac_recurrent_desc){.direction = (ac_direction)3}, NULL)));
  MISBUILT(
      "rnn", "unknown function of a cell", X,
      (own = recurrent_weights(g, 1, 4),
       ac_rnn(x, NULL, NULL, &own, &(ac_recurrent_desc){.function = (ac_rnn_function)2}, NULL)));
  MISBUILT("rnn", "dropout must be in [0, 1)", X,
           (own = recurrent_weights(g, 1, 4),
            ac_rnn(x, NULL, NULL, &own, &(ac_recurrent_desc){.dropout = NAN}, NULL)));
  MISBUILT("lstm_layer", "the layer has no name", X, ac_lstm_layer(g, "", x, 2, NULL, NULL));
  MISBUILT("gru_layer", "the layer has no name", X, ac_gru_layer(g, "", x, 2, NULL, NULL));
  MISBUILT("rnn_layer", "the layer has no name", X, ac_rnn_layer(g, "", x, 2, NULL, NULL));
}

static void wrong_losses_are_named(void **state) {
  (void)state;
  MISBUILT("cross_entropy", "weights f32 [...] or NULL", B("weights"),
           ac_cross_entropy(x, ids, b, NULL));
  MISBUILT("cross_entropy", "weights f32 [...] or NULL", IDS("weights"),
           ac_cross_entropy(x, ids, ids, NULL));
  MISBUILT("cross_entropy", "smoothing is 1, not in [0, 1)", IDS("targets"),
           ac_cross_entropy(x, ids, NULL, &(ac_cross_entropy_desc){.smoothing = 1}));
  MISBUILT("linear_cross_entropy", "weight f32 [classes, in]",
           "weight is parameter \"v\" f32 [5, 3]",
           ac_linear_cross_entropy(x, ac_parameter(g, "v", SHAPE(5, 3), NULL), AC_OUT_IN, ids, NULL,
                                   NULL));
  MISBUILT("linear_cross_entropy", "weight f32 [in, classes]", IDS("weights"),
           ac_linear_cross_entropy(x, w, AC_IN_OUT, ids, ids, NULL));
  MISBUILT("linear_log_probability", "weight f32 [in, classes]", IDS("less"),
           ac_linear_log_probability(x, w, AC_IN_OUT, ids, NULL, ids, 0));
  MISBUILT("linear_log_probability", "soft_cap is -1, but must be in [1e-06, 1e+06]", X,
           ac_linear_log_probability(x, w, AC_OUT_IN, ids, NULL, NULL, -1));
  MISBUILT("linear_log_probability", "unknown weight layout 7", X,
           ac_linear_log_probability(x, w, (ac_layout)7, ids, NULL, NULL, 0));
  MISBUILT("dpo_loss", "one reference without the other",
           "reference_chosen is input \"x\" f32 [B, 6, 4]", ac_dpo_loss(x, x, x, NULL, NULL, NULL));
  MISBUILT("dpo_loss", "beta is -1", "policy_chosen is input \"x\" f32 [B, 6, 4]",
           ac_dpo_loss(x, x, NULL, NULL, NULL, &(ac_dpo_desc){.beta = -1}));
  MISBUILT("linear_cross_entropy", "unknown weight layout 7", X,
           ac_linear_cross_entropy(x, w, (ac_layout)7, ids, NULL, NULL));
  MISBUILT("linear_cross_entropy", "soft_cap is -2, but must be in [1e-06, 1e+06]", X,
           ac_linear_cross_entropy(x, w, AC_IN_OUT, ids, NULL,
                                   &(ac_cross_entropy_desc){.soft_cap = -2}));
  MISBUILT("cross_entropy", "soft_cap is for linear_cross_entropy; cap the logits by tanh",
           IDS("targets"), ac_cross_entropy(x, ids, NULL, &(ac_cross_entropy_desc){.soft_cap = 2}));
  MISBUILT("linear_cross_entropy", "smoothing is nan, not in [0, 1)", X,
           ac_linear_cross_entropy(x, w, AC_IN_OUT, ids, NULL,
                                   &(ac_cross_entropy_desc){.smoothing = NAN}));
  MISBUILT("binary_cross_entropy", "weights f32 [B] or NULL", B("targets"),
           ac_binary_cross_entropy(x, b, NULL));
  MISBUILT("binary_cross_entropy", "it takes", IDS("weights"), ac_binary_cross_entropy(x, x, ids));
  MISBUILT("mean_squared_error", "it takes prediction f32 [B, ...]", IDS("target"),
           ac_mean_squared_error(x, ids, NULL));
  MISBUILT("mean_squared_error", "it takes", IDS("weights"), ac_mean_squared_error(x, x, ids));
  MISBUILT("top_k_accuracy", "k is 5, not in [1, 4]", "logits is input \"x\"",
           ac_top_k_accuracy(x, ids, 5, NULL));
  MISBUILT("class_precision", "the class is 4, not in [0, 3]", "logits is input \"x\"",
           ac_class_precision(x, ids, 4, NULL));
  MISBUILT("class_recall", "the class is -1, not in [0, 3]", "logits is input \"x\"",
           ac_class_recall(x, ids, -1, NULL));
  MISBUILT("class_iou", "it takes logits f32 [..., V]", IDS("logits"),
           ac_class_iou(ids, ids, 0, NULL));
  MISBUILT("loss", "it takes per_row f32 [B, ...]", W("per_row"), ac_loss(w, NULL));
  MISBUILT("loss", "it takes per_row f32 [B, ...]", IDS("per_row"), ac_loss(ids, NULL));
  MISBUILT("loss", "weights f32 [B, ...] like per_row or its first dimensions or NULL",
           IDS("weights"), ac_loss(x, ids));
  MISBUILT("loss", "first dimensions", B("weights"), ac_loss(x, b));
  MISBUILT("loss", "first dimensions", "weights is input \"v\" f32 [B, 1, 4]",
           ac_loss(x, ac_input(g, "v", AC_F32, SHAPE(AC_BATCH, 1, 4))));
  MISBUILT("loss", "first dimensions", "weights is input \"v\" f32 [B, 6, 4, 1]",
           ac_loss(x, ac_input(g, "v", AC_F32, SHAPE(AC_BATCH, 6, 4, 1))));
}

/* x is [B, 6, 4]. */
static void wrong_losses_of_other_ops_are_named(void **state) {
  (void)state;
#define LABELS ac_input(g, "l", AC_F32, SHAPE(AC_BATCH, 6))
  MISBUILT("cross_entropy", "axis is 3, but the classes are on another axis than the first",
           X2("logits"), ac_cross_entropy(x, ids, NULL, &(ac_cross_entropy_desc){.axis = 3}));
  MISBUILT("cross_entropy", "axis is -3, but the classes are on another axis than the first",
           X2("logits"), ac_cross_entropy(x, ids, NULL, &(ac_cross_entropy_desc){.axis = -3}));
  MISBUILT("cross_entropy", "it takes", IDS("targets"),
           ac_cross_entropy(x, ids, NULL, &(ac_cross_entropy_desc){.axis = 1}));
  MISBUILT(
      "linear_cross_entropy", "axis is 1, but the classes come last", IDS("targets"),
      ac_linear_cross_entropy(x, w, AC_IN_OUT, ids, NULL, &(ac_cross_entropy_desc){.axis = 1}));
  MISBUILT("ctc_loss", "it takes logits f32 [B, T, V], targets i32 [B, S]", IDS("logits"),
           ac_ctc_loss(ids, ids, NULL, NULL, NULL, NULL));
  MISBUILT("ctc_loss", "input_lengths i32 [B] or NULL", IDS("input_lengths"),
           ac_ctc_loss(x, ids, ids, NULL, NULL, NULL));
  MISBUILT("ctc_loss", "target_lengths i32 [B] or NULL", IDS("target_lengths"),
           ac_ctc_loss(x, ids, NULL, ids, NULL, NULL));
  MISBUILT("ctc_loss", "blank is 4, but there are 4 classes", IDS("targets"),
           ac_ctc_loss(x, ids, NULL, NULL, NULL, &(ac_ctc_loss_desc){.blank = 4}));
  MISBUILT("ctc_loss", "blank is -1, but there are 4 classes", IDS("targets"),
           ac_ctc_loss(x, ids, NULL, NULL, NULL, &(ac_ctc_loss_desc){.blank = -1}));
  MISBUILT("l1_loss", "it takes prediction f32 [B, ...], target f32 [B, ...], weights f32 [B]",
           IDS("target"), ac_l1_loss(x, ids, NULL));
  MISBUILT("l1_loss", "weights f32 [B] or NULL", IDS("weights"), ac_l1_loss(x, x, ids));
  MISBUILT("huber_loss", "it takes", B("target"), ac_huber_loss(x, b, NULL, 1));
  MISBUILT("huber_loss", "delta is 0, but must be finite and positive", X2("target"),
           ac_huber_loss(x, x, NULL, 0));
  MISBUILT("huber_loss", "delta is nan", X2("target"), ac_huber_loss(x, x, NULL, NAN));
  MISBUILT("hinge_loss", "it takes", W("prediction"), ac_hinge_loss(w, w, NULL, 1));
  MISBUILT("hinge_loss", "margin is -1, but must be finite and at least 0", X2("target"),
           ac_hinge_loss(x, x, NULL, -1));
  MISBUILT("focal_loss", "it takes", IDS("targets"), ac_focal_loss(x, ids, NULL, 0.25f, 2));
  MISBUILT("focal_loss", "alpha is 2, but must be at most 1", X2("targets"),
           ac_focal_loss(x, x, NULL, 2, 2));
  MISBUILT("focal_loss", "gamma is inf, but must be finite and at least 0", X2("targets"),
           ac_focal_loss(x, x, NULL, 0.25f, INFINITY));
  MISBUILT("gaussian_nll", "variance f32 [B, ...]", B("variance"), ac_gaussian_nll(x, x, b, NULL));
  MISBUILT("poisson_nll", "log_rate f32 [B, ...]", B("target"), ac_poisson_nll(x, b, NULL));
  MISBUILT("triplet_loss", "negative f32 [B, ..., D]", B("negative"),
           ac_triplet_loss(x, x, b, NULL, 1));
  MISBUILT("triplet_loss", "weights f32 [B, ...] like the rows", B("weights"),
           ac_triplet_loss(x, x, x, b, 1));
  MISBUILT("triplet_loss", "margin is nan", X2("negative"), ac_triplet_loss(x, x, x, NULL, NAN));
  MISBUILT("cosine_embedding_loss", "label f32 [B, ...]", IDS("label"),
           ac_cosine_embedding_loss(x, x, ids, NULL, 0));
  MISBUILT("cosine_embedding_loss", "margin is 2, but must be in [-1, 1]", X2("b"),
           ac_cosine_embedding_loss(x, x, LABELS, NULL, 2));
  MISBUILT("soft_cross_entropy", "probabilities f32 [B, ..., V]", IDS("probabilities"),
           ac_soft_cross_entropy(x, ids, NULL));
  MISBUILT("kl_divergence", "target_logits f32 [B, ..., V]", W("target_logits"),
           ac_kl_divergence(x, w, NULL, 1));
  MISBUILT("kl_divergence", "temperature is 0, but must be finite and positive",
           X2("target_logits"), ac_kl_divergence(x, x, NULL, 0));
  MISBUILT("contrastive_loss", "a f32 [B, N, D], b f32 [B, N, D]", B("b"),
           ac_contrastive_loss(x, b, NULL, 1));
  MISBUILT("contrastive_loss", "temperature is -1", X2("b"), ac_contrastive_loss(x, x, NULL, -1));
}

static void wrong_images_are_named(void **state) {
  (void)state;
#define IMAGE ac_input(g, "i", AC_F32, SHAPE(AC_BATCH, 6, 5, 7))
#define I "x is input \"i\" f32 [B, 6, 5, 7]"
#define KERNEL(...) ac_parameter(g, "k", SHAPE(__VA_ARGS__), NULL)
#define K "weight is parameter \"k\" f32 ["
#define CONV2D(...) &(ac_conv2d_desc){__VA_ARGS__}
#define RESIZE2D(...)   \
  &(ac_resize2d_desc) { \
    __VA_ARGS__         \
  }
#define POOL2D(...)   \
  &(ac_pool2d_desc) { \
    __VA_ARGS__       \
  }
  MISBUILT("conv2d", "x f32 [B, channels, height, width]", W("weight"),
           ac_conv2d(x, w, NULL, NULL));
  MISBUILT("conv2d", "weight is missing", I, ac_conv2d(IMAGE, NULL, NULL, NULL));
  MISBUILT("conv2d", "bias f32 [out] or NULL", B("bias"),
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), b, NULL));
  MISBUILT("conv2d", "4 groups do not divide the channels", K,
           ac_conv2d(IMAGE, KERNEL(8, 2, 3, 3), NULL, CONV2D(.groups = 4)));
  MISBUILT("conv2d", "3 groups do not divide", K,
           ac_conv2d(IMAGE, KERNEL(8, 2, 3, 3), NULL, CONV2D(.groups = 3)));
  MISBUILT("conv2d", "-1 groups do not divide", K,
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.groups = -1)));
  MISBUILT("conv2d", "2 groups of x's 6 channels have 3 each, and the weight takes 6", K,
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.groups = 2)));
  MISBUILT("conv2d", "a kernel of height 6 and dilation 1 is larger than the padded image's 5", I,
           ac_conv2d(IMAGE, KERNEL(8, 6, 6, 3), NULL, NULL));
  MISBUILT(
      "conv2d", "a kernel of width 6 and dilation 2 is larger than the padded image's 9", K,
      ac_conv2d(IMAGE, KERNEL(8, 6, 5, 6), NULL, CONV2D(.padding = {0, 1}, .dilation = {1, 2})));
  MISBUILT("conv2d", "a kernel of height 1099511627776", I,
           ac_conv2d(IMAGE, KERNEL(1, 6, 1LL << 40, 1), NULL,
                     CONV2D(.dilation = {INT32_MAX, INT32_MAX})));
  MISBUILT("conv2d", "stride -1, padding 0 and dilation 1", I,
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.stride = {1, -1})));
  MISBUILT("conv2d", "stride 1, padding -1 and dilation 1", I,
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.padding = {-1, 0})));
  MISBUILT("conv2d", "can have the size of x only with strides of 1", I,
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.stride = {2, 1}, .same = true)));
  MISBUILT("conv2d", "can have the size of x only with strides of 1, and no other padding", I,
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.padding = {0, 1}, .same = true)));
  MISBUILT("conv2d", "a kernel of height 3 and dilation 1 is larger than the padded image's -2", I,
           ac_conv2d(IMAGE, KERNEL(8, 6, 3, 3), NULL, CONV2D(.more_padding = {-7, 0})));
  MISBUILT("conv1d", "x f32 [B, channels, length]", I,
           ac_conv1d(IMAGE, KERNEL(8, 6, 3), NULL, NULL));
  MISBUILT("conv1d", "a kernel of length 9 and dilation 1 is larger than the padded image's 4", X,
           ac_conv1d(x, KERNEL(8, 6, 9), NULL, NULL));
  MISBUILT("conv3d", "x f32 [B, channels, depth, height, width]", I,
           ac_conv3d(IMAGE, KERNEL(8, 6, 3, 3, 3), NULL, NULL));
  MISBUILT("conv_transpose2d", "weight is missing", I,
           ac_conv_transpose2d(IMAGE, NULL, NULL, NULL));
  MISBUILT("conv_transpose2d", "x has 6 channels, and the weight takes 5", I,
           ac_conv_transpose2d(IMAGE, KERNEL(5, 6, 3, 3), NULL, NULL));
  MISBUILT("conv_transpose2d", "4 groups do not divide the channels of x", I,
           ac_conv_transpose2d(IMAGE, KERNEL(6, 6, 3, 3), NULL,
                               &(ac_conv_transpose2d_desc){.groups = 4}));
  MISBUILT("conv_transpose2d", "bias f32 [out] or NULL", B("bias"),
           ac_conv_transpose2d(IMAGE, KERNEL(6, 8, 3, 3), b, NULL));
  MISBUILT(
      "conv_transpose2d", "output padding 2 is not below the stride 2 or the dilation 1", I,
      ac_conv_transpose2d(IMAGE, KERNEL(6, 8, 3, 3), NULL,
                          &(ac_conv_transpose2d_desc){.stride = {2, 2}, .output_padding = {2, 0}}));
  MISBUILT("conv_transpose2d", "padding 4 leaves -1 of the result's height", I,
           ac_conv_transpose2d(IMAGE, KERNEL(6, 8, 3, 3), NULL,
                               &(ac_conv_transpose2d_desc){.padding = {4, 0}}));
  MISBUILT("conv_transpose2d", "the result is beyond any device", I,
           ac_conv_transpose2d(IMAGE, KERNEL(6, 1, 1LL << 40, 1), NULL,
                               &(ac_conv_transpose2d_desc){.dilation = {INT32_MAX, 1}}));
  MISBUILT("conv_transpose1d", "x f32 [B, channels, length]", I,
           ac_conv_transpose1d(IMAGE, KERNEL(6, 8, 3), NULL, NULL));
  MISBUILT("max_pool1d", "x f32 [B, channels, length]", I, ac_max_pool1d(IMAGE, NULL));
  MISBUILT("average_pool1d", "a kernel of length 6 is larger than the padded image's 4", X,
           ac_average_pool1d(x, &(ac_pool1d_desc){.kernel = 6}));
  MISBUILT("max_pool3d", "x f32 [B, channels, depth, height, width]", I,
           ac_max_pool3d(IMAGE, NULL));
  MISBUILT("average_pool3d", "x f32 [B, channels, depth, height, width]", I,
           ac_average_pool3d(IMAGE, NULL));
  MISBUILT(
      "max_pool2d", "kernel 2, stride 2 and padding 2", I,
      ac_max_pool2d(IMAGE, POOL2D(.kernel = {2, 2}, .padding = {1, 0}, .more_padding = {1, 0})));
  MISBUILT("adaptive_max_pool", "it takes x f32 [B, channels, height, width]", X,
           ac_adaptive_max_pool(x, SHAPE(2, 2)));
  MISBUILT("adaptive_max_pool", "it takes x f32 [B, channels, ...]", X,
           ac_adaptive_max_pool(x, 4, NULL));
  MISBUILT("adaptive_max_pool", "2 sizes at NULL", I, ac_adaptive_max_pool(IMAGE, 2, NULL));
  MISBUILT("adaptive_average_pool", "8 outputs of a width of 7", I,
           ac_adaptive_average_pool(IMAGE, SHAPE(1, 8)));
  MISBUILT("global_max_pool", "it takes x f32 [B, channels, ...]", IDS("x"),
           ac_global_max_pool(ids));
  MISBUILT("max_pool2d", "it takes x f32 [B, channels, height, width]", X,
           ac_max_pool2d(x, POOL2D(.kernel = {2, 2})));
  MISBUILT("max_pool2d", "kernel 0", I, ac_max_pool2d(IMAGE, NULL));
  MISBUILT("average_pool2d", "kernel 2, stride 2 and padding 2", I,
           ac_average_pool2d(IMAGE, POOL2D(.kernel = {2, 2}, .padding = {2, 0})));
  MISBUILT("average_pool2d", "a kernel of height 6 is larger than the padded image's 5", I,
           ac_average_pool2d(IMAGE, POOL2D(.kernel = {6, 2})));
  MISBUILT("global_average_pool", "it takes", IDS("x"), ac_global_average_pool(ids));
  MISBUILT("upsample_nearest2d", "the factor is 0", I, ac_upsample_nearest2d(IMAGE, 0));
  MISBUILT("upsample_nearest2d", "it takes", X, ac_upsample_nearest2d(x, 2));
  MISBUILT("resize2d", "it takes x f32 [B, channels, height, width]", X, ac_resize2d(x, NULL));
  MISBUILT("resize2d", "unknown kind 3", I,
           ac_resize2d(IMAGE, RESIZE2D(.kind = (ac_resize_kind)3)));
  MISBUILT("resize2d", "nearest pixels have no corners to align", I,
           ac_resize2d(IMAGE, RESIZE2D(.align_corners = true)));
  MISBUILT("resize2d", "there are both a size and a factor of width", I,
           ac_resize2d(IMAGE, RESIZE2D(.size = {2, 2}, .factor = {0, 2})));
  MISBUILT("resize2d", "a size of 0 and a factor of 0.1 make height 5 to none", I,
           ac_resize2d(IMAGE, RESIZE2D(.factor = {0.1, 1})));
  MISBUILT("resize2d", "a size of -2 and a factor of 0 make width 7 to none", I,
           ac_resize2d(IMAGE, RESIZE2D(.size = {2, -2})));
  MISBUILT("resize2d", "a factor of nan make height 5 to none", I,
           ac_resize2d(IMAGE, RESIZE2D(.factor = {NAN, 1})));
  MISBUILT("resize2d", "is beyond any device", I,
           ac_resize2d(IMAGE, RESIZE2D(.size = {1LL << 40, 1})));
}

static ac_tensor *own_op_of(ac_graph *g, ac_tensor *x, int count, const ac_custom_desc *desc) {
  ac_tensor *in[8];
  for (int i = 0; i < 8; i++) in[i] = x;
  return ac_custom_op(g, in, count, NULL, desc);
}

static ac_tensor *own_op(ac_graph *g, ac_tensor *x, const ac_custom_desc *desc) {
  return own_op_of(g, x, 1, desc);
}

static const char *half_a_row(const ac_tensor_info *in, int in_count, ac_tensor_info *out,
                              const void *constants) {
  (void)in_count;
  if (constants) return "nothing fits it";
  out->shape[in->rank - 1] = in->shape[in->rank - 1] / 8;
  return NULL;
}

static const char *one_of_all_samples(const ac_tensor_info *in, int in_count, ac_tensor_info *out,
                                      const void *constants) {
  (void)in, (void)in_count, (void)constants;
  out->shape[0] = 1;
  return NULL;
}

static const char *do_nothing(const ac_custom_call *call) {
  (void)call;
  return NULL;
}

static void wrong_own_ops_are_named(void **state) {
  (void)state;
  const ac_custom_desc good = {.name = "own", .cpu = do_nothing}, none = {.name = "own"};
  ac_custom_desc d, back;
#define OWN(text, change) \
  MISBUILT("custom_op", text, X2("inputs[0]"), (d = back = good, change, own_op(g, x, &d)))
  MISBUILT("custom_op", "the op: it has no name", X2("inputs[0]"), own_op(g, x, NULL));
  MISBUILT("custom_op", "own: it has no function for the CPU, and none for OpenCL", X2("inputs[0]"),
           own_op(g, x, &none));
  OWN("own: it has OpenCL source without a function", d.opencl_source = "");
  OWN("own: it has not 1 to 4 outputs", d.outputs = 5);
  OWN("own: it has more than 4096 constant bytes", (d.constants = &d, d.constant_bytes = 4097));
  OWN("own: its constants are NULL", d.constant_bytes = 4);
  OWN("own: its masks of inputs have bits", d.gradient_takes = 2);
  OWN("own: its mask of outputs has bits", d.gradient_takes_outputs = 2);
  OWN("its name is longer than 64 bytes",
      d.name = "a name of this length would leave no room for the rest of a sentence about it");
  OWN("own: nothing fits it", (d.shapes = half_a_row, d.constants = &d, d.constant_bytes = 1));
  OWN("own: its function gives output 0 a shape that is not valid", d.shapes = half_a_row);
  OWN("own: its function gives output 0 a shape without the batch", d.shapes = one_of_all_samples);
  OWN("own: its gradient: it has no name", (back.name = NULL, d.gradient = &back));
  OWN("own: its gradient: it has a gradient itself", (back.gradient = &good, d.gradient = &back));
  MISBUILT("custom_op", "own: its gradient: it would yield more than 4 gradients",
           "inputs[7] is input \"x\"",
           (d = back = good, d.gradient = &back, own_op_of(g, x, 8, &d)));
  MISBUILT("custom_op", "own: its gradient: it would take more than 8 inputs",
           "inputs[7] is input \"x\"",
           (d = back = good, d.gradient = &back, d.gradient_takes = d.constant_inputs = 255,
            own_op_of(g, x, 8, &d)));
  MISBUILT("custom_op", "9 inputs; there must be 1 to 8", "inputs[7] is input \"x\"",
           own_op_of(g, x, 9, &good));
  ac_tensor *parts[2];
  MISBUILT("custom_op", "inputs[1] is missing", "inputs[1] is NULL",
           (parts[0] = x, parts[1] = NULL, ac_custom_op(g, parts, 2, NULL, &good)));
  REFUSED("custom_op (the.scope): 0 inputs; there must be 1 to 8",
          ac_custom_op(g, parts, 0, NULL, &good));
#undef OWN
}

/* Parts are a list, so that even none of them tells the graph. */
static void wrong_parts_are_named(void **state) {
  (void)state;
  ac_tensor *parts[9] = {NULL};
  MISBUILT("concat", "parts[1] has another type than parts[0]", IDS("parts[1]"),
           (parts[0] = x, parts[1] = ids, ac_concat(g, parts, 2, 1)));
  MISBUILT("concat", "parts[1] differs elsewhere than along axis 1", W("parts[1]"),
           (parts[0] = x, parts[1] = w, ac_concat(g, parts, 2, 1)));
  MISBUILT("concat", "no axis 0", "parts[1] is input \"x\"",
           (parts[0] = parts[1] = x, ac_concat(g, parts, 2, 0)));
  MISBUILT("concat", "parts[1] is missing", "parts[0] is input \"x\"",
           (parts[0] = x, parts[1] = NULL, ac_concat(g, parts, 2, 1)));
  for (int i = 0; i < 9; i++) parts[i] = NULL;
  MISBUILT("concat", "parts[2] is missing", "parts[7] is NULL",
           (parts[0] = parts[1] = x, ac_concat(g, parts, 9, 1)));
  REFUSED("concat (the.scope): parts[8] is missing", {
    for (int i = 0; i < 8; i++) parts[i] = x;
    assert_null(ac_concat(g, parts, 9, 1));
  });
  REFUSED("concat (the.scope): 0 parts; there must be at least one", ac_concat(g, parts, 0, 1));
  MISBUILT("stack", "parts[1] has another shape than parts[0]", W("parts[1]"),
           (parts[0] = x, parts[1] = w, ac_stack(g, parts, 2, 1)));
  MISBUILT("stack", "axis 0 cannot be a new one", X2("parts[0]"), ac_stack(g, &x, 1, 0));
  MISBUILT("stack", "axis 4 cannot be a new one", X2("parts[0]"), ac_stack(g, &x, 1, 4));
  REFUSED("stack (the.scope): 1 parts at NULL", ac_stack(g, NULL, 1, 1));
  MISBUILT("split", "there is no axis 0", X, (ac_split(x, 0, 2, NULL, parts), parts[0]));
  MISBUILT("split", "4 equal parts do not make up axis 1", X,
           (ac_split(x, 1, 4, NULL, parts), parts[3]));
  MISBUILT("split", "2 sizes do not make up axis -1", X,
           (ac_split(x, -1, 2, (const int64_t[]){1, 2}, parts), parts[1]));
  MISBUILT("split", "there is no room for the parts", X,
           (ac_split(x, 1, 2, NULL, NULL), (ac_tensor *)NULL));
  REFUSED("concat (the.scope): 1 parts at NULL", ac_concat(g, NULL, 1, 1));
  MISBUILT("concat", "parts[0] is missing", "parts[0] is NULL",
           (parts[0] = NULL, ac_concat(g, parts, 1, 1)));
}

static void wrong_leaves_are_named(void **state) {
  (void)state;
  MISBUILT("linear", "a tensor of [B, 16777216, 1073741824] is beyond any device",
           "weight is parameter \"v\" f32 [1073741824, 4]",
           ac_linear(ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 1LL << 24, 4)),
                     ac_parameter(g, "v", SHAPE(1LL << 30, 4), NULL), NULL, AC_OUT_IN));
  MISBUILT("upsample_nearest2d", "is beyond any device", "x is input \"i\" f32 [B, 1, 9, 9]",
           ac_upsample_nearest2d(ac_input(g, "i", AC_F32, SHAPE(AC_BATCH, 1, 9, 9)), 1 << 25));
  REFUSED("input (the.scope): \"x\" exists already", ac_input(g, "x", AC_F32, SHAPE(AC_BATCH)));
  REFUSED("parameter (the.scope): \"w\" exists already", ac_parameter(g, "w", SHAPE(1), NULL));
  REFUSED("input (the.scope): the shape of \"y\" must have 1 to 6 positive dimensions, the first "
          "may be the batch",
          ac_input(g, "y", AC_F32, SHAPE(3, AC_BATCH)));
  REFUSED("parameter (the.scope): the shape of \"y\" must have",
          ac_parameter(g, "y", SHAPE(AC_BATCH), NULL));
  REFUSED("not contain the batch, and at most 2^48 elements",
          ac_parameter(g, "y", SHAPE(1LL << 40, 1LL << 40), NULL));
  REFUSED("first may be the batch, and at most 2^48 elements a sample",
          ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 1LL << 40, 1LL << 40)));
  REFUSED("parameter (the.scope): it has no name", ac_parameter(g, "", SHAPE(1), NULL));
  REFUSED("input (the.scope): \"y\" has the unknown dtype 17",
          ac_input(g, "y", (ac_dtype)17, SHAPE(AC_BATCH)));
  REFUSED("constant (the.scope): \"c\" exists already", {
    const float one = 1;
    assert_non_null(ac_constant(g, "c", AC_F32, SHAPE(1), &one));
    assert_null(ac_constant(g, "c", AC_F32, SHAPE(1), &one));
  });
  MISBUILT("cache", "it takes rows f32 [B, n, ...], ends i32 [B]", "ends is input \"x\"",
           ac_cache(x, "c", x, 9));
  MISBUILT("cache", "\"c\" of 5 positions: it must have room for all rows, and at most 2^31 - 2",
           "rows is input \"x\" f32 [B, 6, 4]",
           ac_cache(x, "c", ac_input(g, "ends", AC_I32, SHAPE(AC_BATCH)), 5));
  REFUSED("\"c\" of 9 positions: a cache of this name exists already", {
    ac_tensor *ends = ac_input(g, "ends", AC_I32, SHAPE(AC_BATCH));
    assert_non_null(ac_cache(x, "c", ends, 9));
    assert_null(ac_cache(x, "c", ends, 9));
  });
  MISBUILT("cache", "it has no name, or one that is not UTF-8", "rows is input \"x\"",
           ac_cache(x, "\xff", ac_input(g, "ends", AC_I32, SHAPE(AC_BATCH)), 9));
  MISBUILT("cached_attention", "it takes q f32 [B, n, H, D], k f32 [B, n, Hkv, D]",
           "k is input \"x\" f32 [B, 6, 4]",
           ac_cached_attention(heads(g, "q", 6, 2), x, x, "c", ids, 9, NULL));
  MISBUILT("cached_attention", "it takes no segments, bias, lengths or skip_padding", "q is input",
           ac_cached_attention(heads(g, "q", 6, 2), heads(g, "k", 6, 2), heads(g, "v", 6, 2), "c",
                               ac_input(g, "ends", AC_I32, SHAPE(AC_BATCH)), 9,
                               &(ac_attention_desc){.skip_padding = true}));
  MISBUILT("length_mask", "it takes lengths i32 [...]", "lengths is input \"x\" f32 [B, 6, 4]",
           ac_length_mask(x, 3));
  MISBUILT("length_mask", "a mask of 0 positions; it can have 1 to 2^31 - 2", IDS("lengths"),
           ac_length_mask(ids, 0));
  MISBUILT("length_mask", "a mask of 2147483647 positions", IDS("lengths"),
           ac_length_mask(ids, INT32_MAX));
  REFUSED("parameter (the.scope): \"y\": unknown initialiser 99",
          ac_parameter(g, "y", SHAPE(1), &(ac_parameter_desc){.init = {(ac_init_kind)99}}));
  MISBUILT("set_loss", "not a result of a loss op", "loss is input \"x\" f32 [B, 6, 4]",
           (ac_graph_set_loss(g, x), NULL));
  MISBUILT("set_loss", "has a loss already", "loss is a loss",
           (ac_graph_set_loss(g, ac_mean_squared_error(x, x, NULL)),
            ac_graph_set_loss(g, ac_mean_squared_error(x, x, NULL)), NULL));
  MISBUILT("set_loss", "has a loss already", "loss is a loss",
           (ac_graph_add_loss(g, "a", ac_mean_squared_error(x, x, NULL), 1),
            ac_graph_set_loss(g, ac_mean_squared_error(x, x, NULL)), NULL));
#define LOSS ac_mean_squared_error(x, x, NULL)
#define ADDED(text, name, factor) \
  MISBUILT("add_loss", text, "loss is a loss", (ac_graph_add_loss(g, name, LOSS, factor), NULL))
  ADDED("loss \"\": it has no name", "", 1);
  ADDED("loss \"\": it has no name", NULL, 1);
  const double factors[] = {0, -1, (double)NAN, (double)INFINITY, 1e300, 1e-300, 3.5e38, 1.1e-38};
  for (int i = 0; i < 8; i++)
    ADDED("loss \"a\": its factor is not a number from 1.2e-38 to 3.4e38", "a", factors[i]);
  MISBUILT("add_loss", "loss \"a\": it is not a result of a loss op of this graph", "loss is NULL",
           (ac_graph_add_loss(g, "a", NULL, 1), NULL));
  MISBUILT("add_loss", "loss \"a\": it is not a result of a loss op of this graph",
           "loss is input \"x\" f32 [B, 6, 4]", (ac_graph_add_loss(g, "a", x, 1), NULL));
  MISBUILT("add_loss", "loss \"a\": the name exists already", "loss is a loss",
           (ac_graph_add_loss(g, "a", LOSS, 1), ac_graph_add_loss(g, "a", LOSS, 1), NULL));
  MISBUILT("add_loss", "loss \"a\": the graph has a loss without a name (set_loss)",
           "loss is a loss",
           (ac_graph_set_loss(g, LOSS), ac_graph_add_loss(g, "a", LOSS, 1), NULL));
  MISBUILT("set_output", "output \"x\" is not a result of an op", "tensor is input \"x\"",
           (ac_graph_set_output(g, "x", x), NULL));
  MISBUILT("set_output", "output \"\" has no name", "tensor is the result of relu (the.scope)",
           (ac_graph_set_output(g, "", ac_relu(x)), NULL));
}

/* Every function that takes a tensor and returns one was given something wrong above. The names are
 * those of the functions but for these. */
static void every_builder_was_tried(void **state) {
  (void)state;
  read_declarations();
  strcat(tried, " ");
  for (int d = 0; d < declared_count; d++) {
    const declared *f = &declarations[d];
    if (strcmp(f->result, "ac_tensor *") != 0) continue;
    bool takes = false;
    for (int i = 0; i < f->count; i++) takes |= !strncmp(f->parameter[i], "ac_tensor *", 11);
    char word[80];
    const char *name = f->name + 3;
    if (!strcmp(name, "tensor_hint")) name = "hint";
    snprintf(word, sizeof word, " %s ", name);
    if (takes && !strstr(tried, word)) fail_msg("no sentence of %s was looked at", f->name);
  }
}

/* A view costs nothing and is not an op. A hint on it counts for the op that made its result,
 * whatever is between them, and is not refused if there is no such op. */
static void hints_on_views_are_for_their_op(void **state) {
  (void)state;
  ac_graph *g = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4));
  assert_non_null(ac_tensor_hint(ac_dropout(x, 0), AC_KEEP));
  assert_non_null(ac_tensor_hint(ac_reshape(ac_dropout(x, 0), SHAPE(AC_BATCH, 2, 2)), AC_KEEP));
  ac_tensor *y[3];
  for (int i = 0; i < 3; i++) y[i] = ac_relu(x);
  assert_non_null(ac_tensor_hint(ac_dropout(y[0], 0), AC_RECOMPUTE));
  assert_non_null(ac_tensor_hint(ac_transpose(y[1], 1, 1), AC_KEEP));
  ac_tensor *view = ac_reshape(ac_dropout(y[2], 0), SHAPE(AC_BATCH, 2, 2));
  assert_non_null(ac_tensor_hint(view, AC_RECOMPUTE));
  assert_int_equal(y[0]->hint, AC_RECOMPUTE);
  assert_int_equal(y[1]->hint, AC_KEEP);
  assert_int_equal(y[2]->hint, AC_RECOMPUTE);
  assert_int_equal(x->hint, AC_HINT_NONE);
  assert_non_null(ac_tensor_hint(ac_dropout(y[0], 0), AC_HINT_NONE)); /* takes it back */
  assert_int_equal(y[0]->hint, AC_HINT_NONE);
  assert_int_equal(ac_graph_status(g), AC_OK);
  assert_null(ac_tensor_hint(ac_dropout(y[0], 0.5f), (ac_hint)3));
  assert_contains(ac_graph_message(g), "hint: the hint 3 is unknown");
  ac_graph_free(g);
}

static void graphs_do_not_mix(void **state) {
  (void)state;
  ac_graph *g = new_graph(), *h = new_graph();
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4));
  ac_tensor *w = ac_parameter(h, "w", SHAPE(4, 4), NULL);
  assert_null(ac_linear(x, w, NULL, AC_OUT_IN));
  assert_contains(ac_graph_message(g), "linear: weight belongs to another graph; x is input \"x\"");
  assert_int_equal(ac_graph_status(h), AC_OK);
  ac_graph_free(g);
  ac_graph_free(h);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes_follow_the_ops),
      cmocka_unit_test(shapes_of_images),
      cmocka_unit_test(shapes_of_lines_and_volumes),
      cmocka_unit_test(shapes_of_movements),
      cmocka_unit_test(movements_of_nothing_are_views),
      cmocka_unit_test(moved_ids_keep_their_bound),
      cmocka_unit_test(shapes_of_reductions),
      cmocka_unit_test(the_first_failure_sticks),
      cmocka_unit_test(wrong_operands_are_named),
      cmocka_unit_test(wrong_elements_are_named),
      cmocka_unit_test(wrong_rotations_are_named),
      cmocka_unit_test(wrong_movements_and_layers_are_named),
      cmocka_unit_test(wrong_reductions_are_named),
      cmocka_unit_test(wrong_recurrent_layers_are_named),
      cmocka_unit_test(wrong_losses_are_named),
      cmocka_unit_test(wrong_losses_of_other_ops_are_named),
      cmocka_unit_test(wrong_images_are_named),
      cmocka_unit_test(wrong_own_ops_are_named),
      cmocka_unit_test(wrong_parts_are_named),
      cmocka_unit_test(wrong_leaves_are_named),
      cmocka_unit_test(every_builder_was_tried),
      cmocka_unit_test(hints_on_views_are_for_their_op),
      cmocka_unit_test(graphs_do_not_mix),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
