#include "common/suggest.h"

#include <ctype.h>
#include <string.h>

typedef struct pair {
  const char *theirs, *ours;
} pair;

/* The names in PyTorch, transformers, llama.cpp and similar programs. */
static const pair flags[] = {
    {"accumulate", "micro-batch"},
    {"amp", "precision"},
    {"batch-size", "batch"},
    {"bf16", "precision"},
    {"block-size", "context"},
    {"bs", "batch"},
    {"checkpoint", "resume"},
    {"checkpointing", "recompute"},
    {"ctx-size", "context"},
    {"cuda", "device"},
    {"d-model", "width"},
    {"dataset", "data"},
    {"dim", "width"},
    {"dtype", "precision"},
    {"embedding-size", "width"},
    {"fp16", "precision"},
    {"gpu", "device"},
    {"grad-clip", "clip"},
    {"gradient-accumulation-steps", "micro-batch"},
    {"gradient-checkpointing", "recompute"},
    {"gradient-clip", "clip"},
    {"half", "precision"},
    {"hidden-size", "width"},
    {"input", "data"},
    {"learning-rate", "lr"},
    {"log", "metrics"},
    {"lr-scheduler", "schedule"},
    {"max-grad-norm", "clip"},
    {"max-steps", "steps"},
    {"mixed-precision", "precision"},
    {"n-embd", "width"},
    {"n-head", "heads"},
    {"n-heads", "heads"},
    {"n-layer", "layers"},
    {"n-layers", "layers"},
    {"num-epochs", "epochs"},
    {"num-heads", "heads"},
    {"num-layers", "layers"},
    {"num-steps", "steps"},
    {"num-workers", "loader-threads"},
    {"optim", "optimizer"},
    {"output", "out"},
    {"output-dir", "out"},
    {"resume-from", "resume"},
    {"seq-len", "context"},
    {"sequence-length", "context"},
    {"train-data", "data"},
    {"warmup-steps", "warmup"},
    {"wd", "weight-decay"},
};

static const pair values[] = {
    {"8-bit", "8bit"},
    {"adam", "adamw"},
    {"amp", "bf16"},
    {"bfloat16", "bf16"},
    {"cosine-annealing", "cosine"},
    {"float16", "f16"},
    {"float32", "f32"},
    {"fp16", "f16"},
    {"fp32", "f32"},
    {"full", "all"},
    {"half", "f16"},
    {"int8", "8bit"},
    {"ram", "host"},
    {"momentum", "sgd"},
    {"single", "f32"},
};

static const pair commands[] = {
    {"benchmark", "bench"}, {"classify", "predict"}, {"compare", "pilot"}, {"evaluate", "eval"},
    {"fit", "train"},       {"generate", "sample"},  {"infer", "predict"}, {"inference", "predict"},
    {"sweep", "pilot"},     {"test", "eval"},        {"validate", "eval"},
};

/* Small letters. */
static const pair models[] = {
    {"cnn", "resnet"},  {"convnet", "resnet"}, {"dense", "mlp"},       {"gpt-2", "gpt"},
    {"gpt2", "gpt"},    {"llama", "llm"},      {"lora", "llm"},        {"mobilenetv1", "mobilenet"},
    {"nanogpt", "gpt"}, {"perceptron", "mlp"}, {"transformer", "gpt"},
};

static const char *find(const pair *pairs, size_t count, const char *word, size_t length) {
  for (size_t i = 0; i < count; i++)
    if (strlen(pairs[i].theirs) == length && !memcmp(pairs[i].theirs, word, length))
      return pairs[i].ours;
  return NULL;
}

const char *suggest_flag(const char *name, size_t length) {
  return find(flags, sizeof flags / sizeof *flags, name, length);
}

const char *suggest_value(const char *value) {
  return find(values, sizeof values / sizeof *values, value, strlen(value));
}

const char *suggest_command(const char *name) {
  return find(commands, sizeof commands / sizeof *commands, name, strlen(name));
}

const char *suggest_model(const char *name) {
  static const char *const ours[] = {"gpt", "llm", "mlp", "resnet", "mobilenet"};
  char small[32];
  size_t length = 0;
  for (; name[length] && length < sizeof small - 1; length++)
    small[length] = (char)tolower((unsigned char)name[length]);
  small[length] = 0;
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
    if (!strcmp(small, ours[i])) return ours[i];
  return find(models, sizeof models / sizeof *models, small, length);
}

int suggest_distance(const char *a, size_t a_length, const char *b) {
  int row[64];
  size_t b_length = strlen(b);
  if (b_length >= 64) return 64;
  for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
  for (size_t i = 1; i <= a_length; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= b_length; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      if (row[j] + 1 < best) best = row[j] + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      row[j] = best;
    }
  }
  return row[b_length];
}
