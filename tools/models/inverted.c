/* Networks of inverted residuals: EfficientNet (Tan and Le, arXiv 1905.11946; lite0 is the form of
 * it without squeeze and excitation), MobileNetV2 (Sandler et al., arXiv 1801.04381) and V3 (Howard
 * et al., arXiv 1905.02244). A block makes channels many, looks at each by itself, and makes them
 * few again:
 *
 *   x -- 1x1 -- norm -- act -- depthwise -- norm -- act (-- squeeze) -- 1x1 -- norm -- + -->
 *   +--------------------------- (if neither size nor channels change) ---------------+
 *
 *   squeeze   the average of each channel -> few -> a factor for each channel (arXiv 1709.01507)
 *
 * Channels are those of the papers times base / 32 (V3: base / 16), rounded to multiples of 8. */
#include "models/inverted.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BLOCKS = 24, MOST_NAME = 48 };

typedef enum activation { RELU6, SILU, RELU, HARD_SWISH } activation;

typedef struct block {
  int64_t in, expanded, out;
  int kernel, stride;
  int stage, index; /* in names: which stage, and which block of it */
  bool squeezes;
  int64_t squeezed;
  activation act;
} block;

typedef struct shape {
  block blocks[MOST_BLOCKS];
  int count, stages;
  int64_t stem, last, hidden; /* channels; hidden: of a layer before the head, or 0 */
  activation act;             /* of stem and last */
  float epsilon, momentum;
  bool gates_hard; /* squeeze as in MobileNetV3 */
} shape;

static bool is_timm(const image_net *net) {
  return net->names == IMAGE_NAMES_TIMM || net->names == IMAGE_NAMES_TIMM_TENSORFLOW;
}

static bool is_tensorflow(const image_net *net) {
  return net->names == IMAGE_NAMES_TENSORFLOW || net->names == IMAGE_NAMES_TIMM_TENSORFLOW;
}

static int64_t rounded(double channels) {
  int64_t whole = (int64_t)(channels + 4) / 8 * 8;
  if (whole < 8) whole = 8;
  return (double)whole < 0.9 * channels ? whole + 8 : whole;
}

/* ---- the networks ---------------------------------------------------------------------------- */

typedef struct stage {
  int expand, channels, repeats, stride, kernel;
} stage;

static const stage efficientnet_stages[] = {{1, 16, 1, 1, 3},  {6, 24, 2, 2, 3},  {6, 40, 2, 2, 5},
                                            {6, 80, 3, 2, 3},  {6, 112, 3, 1, 5}, {6, 192, 4, 2, 5},
                                            {6, 320, 1, 1, 3}, {0, 0, 0, 0, 0}};
static const stage mobilenet_v2_stages[] = {{1, 16, 1, 1, 3},  {6, 24, 2, 2, 3}, {6, 32, 3, 2, 3},
                                            {6, 64, 4, 2, 3},  {6, 96, 3, 1, 3}, {6, 160, 3, 2, 3},
                                            {6, 320, 1, 1, 3}, {0, 0, 0, 0, 0}};

static void fill_stages(shape *s, const stage *stages, double factor, bool squeezes) {
  int64_t in = s->stem;
  for (; stages->repeats; stages++, s->stages++)
    for (int i = 0; i < stages->repeats; i++) {
      const int64_t out = rounded(stages->channels * factor), expanded = in * stages->expand;
      s->blocks[s->count++] = (block){.in = in,
                                      .expanded = expanded,
                                      .out = out,
                                      .kernel = stages->kernel,
                                      .stride = i ? 1 : stages->stride,
                                      .stage = s->stages,
                                      .index = i,
                                      .squeezes = squeezes,
                                      .squeezed = in < 4 ? 1 : in / 4,
                                      .act = s->act};
      in = out;
    }
}

static void fill_efficientnet(shape *s, const image_net *net) {
  const bool b0 = net->variant == IMAGE_EFFICIENTNET_B0;
  *s = (shape){.stem = net->base, .act = b0 ? SILU : RELU6};
  if (is_tensorflow(net)) s->epsilon = 1e-3f;
  if (net->names == IMAGE_NAMES_TENSORFLOW) s->momentum = 0.01f;
  fill_stages(s, efficientnet_stages, (double)net->base / 32, b0);
  s->last = 4 * s->blocks[s->count - 1].out;
}

static void fill_v2(shape *s, const image_net *net) {
  const double factor = (double)net->base / 32;
  *s = (shape){.stem = net->base, .act = RELU6};
  fill_stages(s, mobilenet_v2_stages, factor, false);
  s->last = rounded(1280 * (factor > 1 ? factor : 1));
}

typedef struct v3_block {
  int kernel, expanded, out, squeezes, act, stride;
} v3_block;

static const v3_block v3_large[] = {
    {3, 16, 16, 0, RELU, 1},         {3, 64, 24, 0, RELU, 2},
    {3, 72, 24, 0, RELU, 1},         {5, 72, 40, 1, RELU, 2},
    {5, 120, 40, 1, RELU, 1},        {5, 120, 40, 1, RELU, 1},
    {3, 240, 80, 0, HARD_SWISH, 2},  {3, 200, 80, 0, HARD_SWISH, 1},
    {3, 184, 80, 0, HARD_SWISH, 1},  {3, 184, 80, 0, HARD_SWISH, 1},
    {3, 480, 112, 1, HARD_SWISH, 1}, {3, 672, 112, 1, HARD_SWISH, 1},
    {5, 672, 160, 1, HARD_SWISH, 2}, {5, 960, 160, 1, HARD_SWISH, 1},
    {5, 960, 160, 1, HARD_SWISH, 1}, {0, 0, 0, 0, 0, 0}};
static const v3_block v3_small[] = {
    {3, 16, 16, 1, RELU, 2},        {3, 72, 24, 0, RELU, 2},        {3, 88, 24, 0, RELU, 1},
    {5, 96, 40, 1, HARD_SWISH, 2},  {5, 240, 40, 1, HARD_SWISH, 1}, {5, 240, 40, 1, HARD_SWISH, 1},
    {5, 120, 48, 1, HARD_SWISH, 1}, {5, 144, 48, 1, HARD_SWISH, 1}, {5, 288, 96, 1, HARD_SWISH, 2},
    {5, 576, 96, 1, HARD_SWISH, 1}, {5, 576, 96, 1, HARD_SWISH, 1}, {0, 0, 0, 0, 0, 0}};

/* A stage is the blocks with the same channels. */
static void fill_v3(shape *s, const image_net *net) {
  const bool large = net->variant == IMAGE_MOBILENET_V3_LARGE;
  const double factor = (double)net->base / 16;
  *s = (shape){.stem = net->base,
               .act = HARD_SWISH,
               .epsilon = net->names == IMAGE_NAMES_TIMM ? 0 : 1e-3f,
               .momentum = is_timm(net) ? 0 : 0.01f,
               .gates_hard = true};
  int64_t in = s->stem;
  int index = 0, before = 0;
  for (const v3_block *b = large ? v3_large : v3_small; b->kernel; b++) {
    const int64_t expanded = rounded(b->expanded * factor), out = rounded(b->out * factor);
    index = b->out == before ? index + 1 : 0;
    s->stages += !index;
    before = b->out;
    s->blocks[s->count] = (block){.in = in,
                                  .expanded = expanded,
                                  .out = out,
                                  .kernel = b->kernel,
                                  .stride = b->stride,
                                  .stage = s->stages - 1,
                                  .index = index,
                                  .squeezes = b->squeezes,
                                  .squeezed = rounded((double)(expanded / 4)),
                                  .act = (activation)b->act};
    s->count++;
    in = out;
  }
  s->last = 6 * in;
  s->hidden = rounded((large ? 1280 : 1024) * (is_timm(net) ? 1 : factor));
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct block_names {
  char path[MOST_NAME];
  char expand[24], expand_norm[24], depthwise[24], depthwise_norm[24];
  char reduce[24], excite[24], project[24], project_norm[24];
} block_names;

static void name_by_timm(block_names *n, const block *b) {
  const bool expands = b->expanded != b->in;
  snprintf(n->path, sizeof n->path, "blocks.%d.%d.", b->stage, b->index);
  snprintf(n->expand, sizeof n->expand, "conv_pw");
  snprintf(n->expand_norm, sizeof n->expand_norm, "bn1");
  snprintf(n->depthwise, sizeof n->depthwise, "conv_dw");
  snprintf(n->depthwise_norm, sizeof n->depthwise_norm, "bn%d", 1 + expands);
  snprintf(n->reduce, sizeof n->reduce, "se.conv_reduce");
  snprintf(n->excite, sizeof n->excite, "se.conv_expand");
  snprintf(n->project, sizeof n->project, expands ? "conv_pwl" : "conv_pw");
  snprintf(n->project_norm, sizeof n->project_norm, "bn%d", 2 + expands);
}

static void name_by_tensorflow(block_names *n, int number) {
  snprintf(n->path, sizeof n->path, "_blocks.%d.", number);
  snprintf(n->expand, sizeof n->expand, "_expand_conv");
  snprintf(n->expand_norm, sizeof n->expand_norm, "_bn0");
  snprintf(n->depthwise, sizeof n->depthwise, "_depthwise_conv");
  snprintf(n->depthwise_norm, sizeof n->depthwise_norm, "_bn1");
  snprintf(n->reduce, sizeof n->reduce, "_se_reduce");
  snprintf(n->excite, sizeof n->excite, "_se_expand");
  snprintf(n->project, sizeof n->project, "_project_conv");
  snprintf(n->project_norm, sizeof n->project_norm, "_bn2");
}

/* Modules are numbered in the order in which they are there. */
static void name_by_torchvision(block_names *n, const block *b, const image_net *net, int number,
                                bool efficientnet) {
  const bool v2 = !efficientnet && net->variant == IMAGE_MOBILENET_V2;
  int at = 0;
  if (efficientnet)
    snprintf(n->path, sizeof n->path, "features.%d.%d.block.", b->stage + 1, b->index);
  else snprintf(n->path, sizeof n->path, "features.%d.%s.", number + 1, v2 ? "conv" : "block");
  snprintf(n->expand, sizeof n->expand, "%d.0", at);
  snprintf(n->expand_norm, sizeof n->expand_norm, "%d.1", at);
  if (b->expanded != b->in) at++;
  snprintf(n->depthwise, sizeof n->depthwise, "%d.0", at);
  snprintf(n->depthwise_norm, sizeof n->depthwise_norm, "%d.1", at);
  at++;
  snprintf(n->reduce, sizeof n->reduce, "%d.fc1", at);
  snprintf(n->excite, sizeof n->excite, "%d.fc2", at);
  if (b->squeezes) at++;
  snprintf(n->project, sizeof n->project, v2 ? "%d" : "%d.0", at);
  if (v2) snprintf(n->project_norm, sizeof n->project_norm, "%d", at + 1);
  else snprintf(n->project_norm, sizeof n->project_norm, "%d.1", at);
}

typedef struct end_names {
  char stem[24], stem_norm[24], last[24], last_norm[24];
} end_names;

static void name_ends(end_names *n, const image_net *net, const shape *s, int features) {
  const bool timm = is_timm(net), tensorflow = net->names == IMAGE_NAMES_TENSORFLOW;
  snprintf(n->stem, sizeof n->stem,
           timm         ? "conv_stem"
           : tensorflow ? "_conv_stem"
                        : "features.0.0");
  snprintf(n->stem_norm, sizeof n->stem_norm, timm ? "bn1" : tensorflow ? "_bn0" : "features.0.1");
  snprintf(n->last, sizeof n->last, "features.%d.0", features);
  snprintf(n->last_norm, sizeof n->last_norm, "features.%d.1", features);
  if (timm || tensorflow) {
    snprintf(n->last, sizeof n->last, timm ? "conv_head" : "_conv_head");
    snprintf(n->last_norm, sizeof n->last_norm, timm ? "bn2" : "_bn1");
  }
  if (timm && s->hidden) {
    snprintf(n->last, sizeof n->last, "blocks.%d.0.conv", s->stages);
    snprintf(n->last_norm, sizeof n->last_norm, "blocks.%d.0.bn1", s->stages);
  }
}

const char *inverted_head(const image_net *net, bool efficientnet) {
  if (is_timm(net)) return "classifier";
  if (net->names == IMAGE_NAMES_TENSORFLOW) return "_fc";
  return !efficientnet && net->variant >= IMAGE_MOBILENET_V3_SMALL ? "classifier.3"
                                                                   : "classifier.1";
}

/* ---- the graph ------------------------------------------------------------------------------- */

static ac_tensor *activate(ac_tensor *x, activation act) {
  switch (act) {
  case RELU6:
    return ac_relu6(x);
  case SILU:
    return ac_silu(x);
  case RELU:
    return ac_relu(x);
  default:
    return ac_hard_swish(x);
  }
}

/* A convolution and its norm. */
static ac_tensor *convolve(const image_net *net, const shape *s, const char *name, const char *norm,
                           ac_tensor *x, int64_t in, int64_t out, const image_conv_desc *desc) {
  x = image_convolve(net, name, x, in, out, desc);
  return image_batch_norm(net, norm, x, out, s->epsilon, s->momentum);
}

/* The weights are those of convolutions of 1 x 1. */
static ac_tensor *point(const image_net *net, const char *name, ac_tensor *x, int64_t in,
                        int64_t out) {
  const int64_t shape[] = {out, in, 1, 1};
  const ac_init he = {.kind = AC_INIT_KAIMING_NORMAL};
  ac_tensor *weight =
      image_parameter(net, name, "weight", 4, shape, (ac_parameter_desc){.init = he});
  ac_tensor *bias = image_parameter(net, name, "bias", 1, &out, (ac_parameter_desc){0});
  return ac_linear(x, ac_reshape(weight, AC_SHAPE(out, in)), bias, AC_OUT_IN);
}

static ac_tensor *squeeze(const image_net *net, const shape *s, const block *b,
                          const block_names *n, ac_tensor *x) {
  ac_tensor *y = point(net, n->reduce, ac_global_average_pool(x), b->expanded, b->squeezed);
  y = s->gates_hard ? ac_relu(y) : ac_silu(y);
  y = point(net, n->excite, y, b->squeezed, b->expanded);
  y = s->gates_hard ? ac_hard_sigmoid(y) : ac_sigmoid(y);
  return ac_multiply(x, ac_reshape(y, AC_SHAPE(AC_BATCH, b->expanded, 1, 1)));
}

static ac_tensor *add_block(const image_net *net, const shape *s, const block *b,
                            const block_names *n, ac_tensor *x) {
  const image_conv_desc one = {.kernel = 1}, each = {.kernel = b->kernel,
                                                     .stride = b->stride,
                                                     .groups = b->expanded,
                                                     .tensorflow = is_tensorflow(net)};
  ac_tensor *y = x;
  if (b->expanded != b->in)
    y = activate(convolve(net, s, n->expand, n->expand_norm, y, b->in, b->expanded, &one), b->act);
  y = activate(
      convolve(net, s, n->depthwise, n->depthwise_norm, y, b->expanded, b->expanded, &each),
      b->act);
  if (b->squeezes) y = squeeze(net, s, b, n, y);
  y = convolve(net, s, n->project, n->project_norm, y, b->expanded, b->out, &one);
  return b->stride == 1 && b->in == b->out ? ac_add(x, image_branch(net, y)) : y;
}

static void build(image_net *net, const shape *s, bool efficientnet) {
  const int last = s->count + 1;
  end_names ends;
  block_names n;
  name_ends(&ends, net, s, efficientnet ? s->stages + 1 : s->count + 1);
  net->path = "";
  image_level(net, 0, last);
  ac_graph_scope(net->graph, "stem");
  const image_conv_desc stem = {.kernel = 3, .stride = 2, .tensorflow = is_tensorflow(net)};
  ac_tensor *x =
      convolve(net, s, ends.stem, ends.stem_norm, image_input(net), net->channels, s->stem, &stem);
  x = activate(x, s->act);
  for (int i = 0; i < s->count; i++) {
    const block *b = &s->blocks[i];
    if (is_timm(net)) name_by_timm(&n, b);
    else if (net->names == IMAGE_NAMES_TENSORFLOW) name_by_tensorflow(&n, i);
    else name_by_torchvision(&n, b, net, i, efficientnet);
    char scope[MOST_NAME];
    snprintf(scope, sizeof scope, "%.*s", (int)strlen(n.path) - 1, n.path);
    ac_graph_scope(net->graph, scope);
    net->path = n.path;
    image_level(net, i + 1, last);
    image_block(net, i, s->count);
    x = add_block(net, s, b, &n, x);
  }
  net->path = "";
  image_level(net, last, last);
  ac_graph_scope(net->graph, "last");
  int64_t channels = s->last;
  x = convolve(net, s, ends.last, ends.last_norm, x, s->blocks[s->count - 1].out, channels,
               &(image_conv_desc){.kernel = 1});
  x = ac_global_average_pool(activate(x, s->act));
  if (s->hidden) {
    x = is_timm(net)
            ? point(net, "conv_head", x, channels, s->hidden)
            : image_dense(net, "classifier.0", x, channels, s->hidden, IMAGE_START_TRUNCATED);
    x = ac_hard_swish(x);
    channels = s->hidden;
  }
  image_classify(net, inverted_head(net, efficientnet), x, channels);
}

void efficientnet_build(ac_graph *graph, const image_net *config) {
  image_net net = *config;
  shape s;
  net.graph = graph;
  fill_efficientnet(&s, &net);
  build(&net, &s, true);
}

const char *efficientnet_head(const image_net *config) {
  return inverted_head(config, true);
}

void inverted_mobilenet(ac_graph *graph, const image_net *config) {
  image_net net = *config;
  shape s;
  net.graph = graph;
  if (net.variant == IMAGE_MOBILENET_V2) fill_v2(&s, &net);
  else fill_v3(&s, &net);
  build(&net, &s, false);
}
