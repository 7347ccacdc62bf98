#include "models/image_net.h"
#include "models/share.h"

#include <stdio.h>

static ac_tensor *parameter(const image_net *net, const char *name, const char *leaf, int rank,
                            const int64_t *shape, ac_parameter_desc desc) {
  char full[128];
  snprintf(full, sizeof full, "%s%s.%s", net->path, name, leaf);
  return ac_parameter(net->graph, full, rank, shape, &desc);
}

ac_tensor *image_input(const image_net *net) {
  const int64_t shape[] = {AC_BATCH, net->channels, net->height, net->width};
  return ac_input(net->graph, "images", AC_F32, 4, shape);
}

/* He et al. (arXiv 1502.01852), for the ReLU that follows. */
ac_tensor *image_conv(const image_net *net, const char *name, ac_tensor *x, int64_t in, int64_t out,
                      int kernel, int stride, int64_t groups) {
  const int64_t shape[] = {out, in / groups, kernel, kernel};
  ac_init he = {.kind = AC_INIT_KAIMING_NORMAL};
  ac_tensor *weight = parameter(net, name, "weight", 4, shape, (ac_parameter_desc){.init = he});
  const ac_conv2d_desc desc = {
      .stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}, .groups = (int)groups};
  return ac_conv2d(x, weight, NULL, &desc);
}

ac_tensor *image_norm_layer(const image_net *net, const char *name, ac_tensor *x,
                            int64_t channels) {
  const ac_init one = {.kind = AC_INIT_CONSTANT, .value = 1};
  const ac_parameter_desc ones = {.init = one}, frozen_ones = {.init = one, .frozen = true};
  ac_tensor *gamma = parameter(net, name, "weight", 1, &channels, ones);
  ac_tensor *beta = parameter(net, name, "bias", 1, &channels, (ac_parameter_desc){0});
  switch ((image_norm)net->norm) {
  case IMAGE_NORM_LAYER:
    return ac_sample_norm(x, gamma, beta, 0);
  case IMAGE_NORM_INSTANCE:
    return ac_instance_norm(x, gamma, beta, 0);
  case IMAGE_NORM_BATCH: {
    ac_tensor *mean =
        parameter(net, name, "running_mean", 1, &channels, (ac_parameter_desc){.frozen = true});
    ac_tensor *variance = parameter(net, name, "running_var", 1, &channels, frozen_ones);
    return ac_batch_norm(x, gamma, beta, mean, variance, NULL);
  }
  default:
    return ac_group_norm(x, gamma, beta, channels % 8 ? 1 : (int)(channels / 8), 0);
  }
}

void image_head(const image_net *net, ac_tensor *x, int64_t channels) {
  ac_graph_scope(net->graph, "head");
  const int64_t shape[] = {net->classes, channels};
  ac_init init = {.kind = AC_INIT_KAIMING_NORMAL, .gain = 1};
  ac_tensor *weight = parameter(net, "fc", "weight", 2, shape, (ac_parameter_desc){.init = init});
  ac_tensor *bias = parameter(net, "fc", "bias", 1, shape, (ac_parameter_desc){0});
  ac_tensor *labels = ac_input(net->graph, "labels", AC_I32, 1, (int64_t[]){AC_BATCH});
  ac_tensor *logits = ac_linear(ac_global_average_pool(x), weight, bias, AC_OUT_IN);
  ac_graph_set_output(net->graph, "logits", logits);
  const ac_cross_entropy_desc loss = {.smoothing = share_of(net->smoothing)};
  ac_graph_set_loss(net->graph, ac_cross_entropy(logits, labels, NULL, &loss));
}
