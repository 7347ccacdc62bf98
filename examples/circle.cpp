// In C++, from 2011 on: handles that free themselves, failures as exceptions, samples from a
// function. A small network learns which points of a square lie within a circle.
#include <accrue/accrue.h>

#include <cstdio>
#include <memory>
#include <stdexcept>

namespace {

void check(ac_status status) {
  if (status != AC_OK) throw std::runtime_error(ac_last_error());
}

template <class T, void (*release)(T *)> struct releaser {
  void operator()(T *handle) const { release(handle); }
};
template <class T, void (*release)(T *)> using owner = std::unique_ptr<T, releaser<T, release>>;

using graph = owner<ac_graph, ac_graph_free>;
using device = owner<ac_device, ac_device_close>;
using plan = owner<ac_plan, ac_plan_free>;
using trainer = owner<ac_trainer, ac_trainer_free>;
using dataset = owner<ac_dataset, ac_dataset_free>;

// make(ac_plan_create, graph, device, &policy): the functions that make something take its place
// first.
template <class T, class... Parameters, class... Arguments>
T *make(ac_status (*create)(T **, Parameters...), Arguments... arguments) {
  T *made = nullptr;
  check(create(&made, arguments...));
  return made;
}

// Sample n is the n-th of evenly spread points.
ac_status read_point(void *, const ac_sample_key *key, void *const *fields) {
  float *point = static_cast<float *>(fields[0]);
  const int side = 64;
  point[0] = static_cast<float>(key->index % side) / (side / 2) - 1;
  point[1] = static_cast<float>(key->index / side) / (side / 2) - 1;
  *static_cast<int32_t *>(fields[1]) = point[0] * point[0] + point[1] * point[1] < 0.6F;
  return AC_OK;
}

dataset points() {
  ac_callback_dataset_desc desc = AC_DEFAULTS;
  desc.count = 64 * 64;
  desc.field_count = 2;
  desc.fields[0] = {"points", AC_F32, 2};
  desc.fields[1] = {"inside", AC_I32, 1};
  desc.read = read_point;
  return dataset(make(ac_dataset_from_callback, &desc));
}

ac_tensor *layer(ac_graph *graph, const char *weight, const char *bias, ac_tensor *x, int in,
                 int out) {
  ac_parameter_desc he = AC_DEFAULTS;
  he.init.kind = AC_INIT_KAIMING_NORMAL;
  return ac_linear(x, ac_parameter(graph, weight, AC_SHAPE(out, in), &he),
                   ac_parameter(graph, bias, AC_SHAPE(out), nullptr), AC_OUT_IN);
}

graph network() {
  graph made(make(ac_graph_create));
  ac_tensor *x = ac_input(made.get(), "points", AC_F32, AC_SHAPE(AC_BATCH, 2));
  ac_tensor *inside = ac_input(made.get(), "inside", AC_I32, AC_SHAPE(AC_BATCH));
  x = ac_relu(layer(made.get(), "w1", "b1", x, 2, 32));
  x = layer(made.get(), "w2", "b2", x, 32, 2);
  ac_graph_set_loss(made.get(), ac_cross_entropy(x, inside, nullptr, nullptr));
  return made;
}

double train() {
  ac_device_desc on = AC_DEFAULTS;
  on.name = "cpu";
  on.threads = 1; // the fastest for so small a network
  device cpu(make(ac_device_open, &on));
  ac_plan_desc policy = AC_DEFAULTS;
  policy.batch = 256;
  plan made(make(ac_plan_create, network().get(), cpu.get(), &policy));
  ac_trainer_desc how = AC_DEFAULTS;
  how.schedule.lr = 5e-3;
  trainer running(make(ac_trainer_create, made.get(), &how));
  dataset data = points();
  ac_fit_desc fit = AC_DEFAULTS;
  fit.train = fit.validation = data.get();
  fit.steps = 400;
  fit.callback = [](void *, const ac_fit_event *event) {
    if (event->kind == AC_FIT_STEP && event->step % 100 == 0)
      std::printf("update %d: loss %.4f\n", static_cast<int>(event->step), event->update.loss);
    return true;
  };
  ac_fit_result result;
  check(ac_fit(running.get(), &fit, &result));
  return result.final.accuracy;
}

} // namespace

int main() {
  try {
    double accuracy = train();
    std::printf("accuracy %.4f\n", accuracy);
    return accuracy > 0.97 ? 0 : 1;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "circle: %s\n", error.what());
    return 1;
  }
}
