/* Every function that makes something, with its first, its second, ... allocation failing until it
 * makes do without a failure: each time the status is AC_ERROR_MEMORY, the results are NULL, and
 * all that was allocated is free again. The linker puts this program's own malloc, calloc, realloc,
 * strdup, free before those of the C library wherever the library calls them; a CPU device's memory
 * comes from an allocator that fails in its turn. */
#include "support/files.h"

#include "backend/device.h"

#include "support/headers.h"
#include "support/models.h"

#include <stdatomic.h>

/* ---- allocations that fail ------------------------------------------------------------------- */

/* Threads of the library allocate as well. */
static atomic_int
    countdown;           /* the allocation that fails, counted from 1; 0: it has, or none does */
static atomic_long live; /* blocks */

static bool fails(void) {
  int left = countdown;
  while (left > 0 && !atomic_compare_exchange_weak(&countdown, &left, left - 1)) continue;
  return left == 1;
}

static void *counted(void *block) {
  live += block != NULL;
  return block;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *block);

void *__wrap_malloc(size_t size) {
  return fails() ? NULL : counted(__real_malloc(size));
}
void *__wrap_calloc(size_t count, size_t size) {
  return fails() ? NULL : counted(__real_calloc(count, size));
}
void *__wrap_realloc(void *old, size_t size) {
  if (fails()) return NULL;
  return old ? __real_realloc(old, size) : counted(__real_malloc(size));
}
char *__wrap_strdup(const char *text) {
  size_t size = strlen(text) + 1;
  char *copy = __wrap_malloc(size);
  return copy ? memcpy(copy, text, size) : NULL;
}
void __wrap_free(void *block) {
  live -= block != NULL;
  __real_free(block);
}

static void *allocate(void *user, size_t bytes, size_t alignment) {
  (void)user;
  return fails() ? NULL : counted(aligned_alloc(alignment, (bytes / alignment + 1) * alignment));
}
static void release(void *user, void *memory, size_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}
static const ac_allocator allocator = {allocate, release, NULL};

/* ---- what is made, and of what --------------------------------------------------------------- */

enum { SAMPLES = 6, TOKENS = 16 };
static const test_gpt model = {2, 8, TOKENS, 11, 2, 0.1f, true, false};
static const ac_field fields[] = {{"tokens", AC_I32, TOKENS}};
static int32_t numbers[SAMPLES * TOKENS];
static const void *const data[] = {numbers};
static const char *device_name;
static ac_graph *graph;
static ac_device *device;
static ac_plan *training, *predicting, *sharing;
static const ac_lora_desc lora = {.rank = 2};
static ac_trainer *adapted; /* with such an adapter */
static ac_trainer *owner;   /* of what `sharing` shares */
static ac_dataset *dataset, *images;
static ac_pictures *pictures;
static const ac_pictures_desc unlabelled = {.unlabelled = true};
/* Most of them cannot be masks, and are left out. */
static const ac_pictures_desc masked = {.bad = AC_BAD_PICTURES_SKIP,
                                        .masks = ACCRUE_TEST_VECTORS "/pictures"};
static ac_tokens *tokens;
static ac_tokenizer *tokenizer;
static ac_chat *chat;
static ac_chat_desc chat_desc;
static const uint32_t ids[] = {70, 260, 71};
static test_path pixels, labels, ten, hundred, words, weights, chats;

static const char chatml[] = "{% for message in messages %}{{'<|im_start|>' + message['role'] + "
                             "'\\n' + message['content'] + "
                             "'<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
                             "'<|im_start|>assistant\\n' }}{% endif %}";

static ac_session *other; /* what another one is made of */
static ac_model *language_model, *gguf_model;
static const ac_generator_desc of_text = {.context = 8, .chunk = 4};

static void build_generator(void *user, ac_graph *g, int64_t count, int64_t context) {
  (void)user;
  ac_tensor *ids = ac_input(g, "tokens", AC_I32, AC_SHAPE(AC_BATCH, count)),
            *ends = ac_input(g, "ends", AC_I32, AC_SHAPE(AC_BATCH)),
            *table = ac_parameter(g, "table", AC_SHAPE(5, 4), NULL),
            *y = ac_reshape(ac_embedding(table, ids), AC_SHAPE(AC_BATCH, count, 1, 4));
  y = ac_cached_attention(y, y, y, "a", ends, context, NULL);
  if (y) y = ac_reshape(ac_slice(y, 1, count - 1, 1), AC_SHAPE(AC_BATCH, 1, 4));
  if (y) ac_graph_set_output(g, "logits", ac_linear(y, table, NULL, AC_OUT_IN));
}

typedef struct made {
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_session *session;
  ac_generator *generator;
  ac_ranks *ranks;
  ac_learner *learner;
  ac_bench *bench;
  ac_tokens *tokens;
  ac_tokenizer *tokenizer;
  const ac_chat_template *chat_template;
  ac_chat *chat;
  char *text;
  ac_model_file *file;
  ac_model *model;
  ac_adapter *adapter;
  ac_gguf_metadata *metadata;
  ac_dataset *dataset, *validation;
  ac_pictures *pictures, *other_pictures;
} made;

static void free_made(made *m) {
  ac_graph_free(m->graph);
  ac_trainer_free(m->trainer);
  ac_session_free(m->session);
  ac_generator_free(m->generator);
  ac_ranks_close(m->ranks);
  ac_learner_free(m->learner);
  ac_plan_free(m->plan);
  ac_bench_free(m->bench);
  ac_device_close(m->device);
  ac_dataset_free(m->dataset);
  ac_dataset_free(m->validation);
  ac_pictures_free(m->pictures);
  ac_pictures_free(m->other_pictures);
  ac_tokens_free(m->tokens);
  ac_tokenizer_free(m->tokenizer);
  ac_chat_free(m->chat);
  free(m->text);
  ac_model_file_close(m->file);
  ac_model_free(m->model);
  ac_adapter_close(m->adapter);
  ac_gguf_metadata_close(m->metadata);
}

static ac_status read_nothing(void *user, const ac_sample_key *key, void *const *out) {
  (void)user, (void)key, (void)out;
  return AC_OK;
}

static const ac_callback_dataset_desc callback = {
    .count = 1, .field_count = 1, .fields = {{"x", AC_F32, 1}}, .read = read_nothing};
static const float mean[] = {0.5f};
/* Two that are given whole, so that nothing is measured on a CPU, and one to be searched for. */
static const ac_plan_desc fixed = {.batch = 4,
                                   .micro_batch = 2,
                                   .recompute = AC_RECOMPUTE_ALL,
                                   .precision = AC_PRECISION_F16,
                                   .debug_numerics = true},
                          predicts = {.purpose = AC_PREDICT, .batch = 4},
                          searched = {.batch = 4, .memory = 60000};

/* A list with a cache of its pictures, which is made or was made before. */
static ac_status with_cache(ac_pictures **list, bool there) {
  const test_path path = in_folder("pictures.cache"), pair = in_folder("pair");
  if (!there) remove(path.text);
  *list = NULL;
  ac_status status = ac_pictures_open(list, NULL, pair.text, &unlabelled);
  if (status == AC_OK) status = ac_pictures_use_cache(*list, path.text, 3);
  if (status == AC_OK) return AC_OK;
  ac_pictures_free(*list);
  *list = NULL;
  return status;
}

typedef struct creation {
  const char *function;
  ac_status (*create)(made *m);
} creation;

#define CREATION(function, name, ...)           \
  static ac_status function##_##name(made *m) { \
    return function(__VA_ARGS__);               \
  }
#define CREATIONS(X)                                                                           \
  X(ac_graph_create, 0, &m->graph)                                                             \
  X(ac_device_open, 0, &m->device,                                                             \
    &(ac_device_desc){.name = device_name, .allocator = &allocator})                           \
  X(ac_plan_create, fixed, &m->plan, graph, device, &fixed)                                    \
  X(ac_plan_create, predicts, &m->plan, graph, device, &predicts)                              \
  X(ac_trainer_create, 0, &m->trainer, training, NULL)                                         \
  X(ac_session_create, 0, &m->session, predicting, 0)                                          \
  X(ac_session_create_shared, 0, &m->session, sharing, 0, owner)                               \
  X(ac_session_create_with, 0, &m->session, predicting, 0, other)                              \
  X(ac_generator_create, 0, &m->generator, device, &of_text, build_generator, NULL)            \
  X(ac_generator_create_model, 0, &m->generator, language_model, device, &of_text, NULL)       \
  X(ac_learner_create, 0, &m->learner, graph,                                                  \
    &(ac_learner_desc){.device = {.name = device_name, .allocator = &allocator},               \
                       .plan = {.batch = 4, .micro_batch = 2, .recompute = AC_RECOMPUTE_ALL}}) \
  X(ac_bench_create, 0, &m->bench, device, NULL)                                               \
  X(ac_ranks_open, 0, &m->ranks, &(ac_ranks_desc){.engine = "alone"})                          \
  X(ac_ranks_create_threads, 0, &m->ranks, 1, NULL)                                            \
  X(ac_dataset_from_callback, 0, &m->dataset, &callback)                                       \
  X(ac_dataset_from_memory, 0, &m->dataset, SAMPLES, 1, fields, data)                          \
  X(ac_pictures_open, 0, &m->pictures, &m->other_pictures, ACCRUE_TEST_VECTORS "/pictures",    \
    &unlabelled)                                                                               \
  X(ac_pictures_open, masked, &m->pictures, NULL, masked.masks, &masked)                       \
  X(ac_pictures_fold, 0, &m->pictures, &m->other_pictures, pictures, 1, 2)                     \
  X(ac_dataset_from_pictures, 0, &m->dataset, pictures, NULL)                                  \
  X(ac_dataset_mixed, 0, &m->dataset, images, &(ac_mixing){.mixup = 1})                        \
  X(with_cache, made, &m->pictures, false)                                                     \
  X(with_cache, opened, &m->pictures, true)                                                    \
  X(ac_dataset_weighted, 0, &m->dataset, images, 1, mean)                                      \
  X(ac_dataset_slice, 0, &m->dataset, dataset, 1, 3)                                           \
  X(ac_dataset_fold, 0, &m->dataset, &m->validation, dataset, 1, 2)                            \
  X(ac_dataset_shard, 0, &m->dataset, dataset, 1, 2)                                           \
  X(ac_dataset_augmented, 0, &m->dataset, images,                                              \
    &(ac_augmentation){.shift = 1, .rotation = 5, .mean = mean})                               \
  X(ac_tokens_from_text, 0, &m->tokens, AC_TEST_HEADERS "/base.h", 0)                          \
  X(ac_tokens_from_text_where, 0, &m->tokens, AC_TEST_HEADERS "/base.h", 0, NULL, NULL)        \
  X(ac_tokens_from_bytes, 0, &m->tokens, test_folder, 0, NULL, NULL)                           \
  X(ac_tokens_from_uint16, 0, &m->tokens, words.text, 256)                                     \
  X(ac_tokens_from_uint32, 0, &m->tokens, words.text, 1 << 30)                                 \
  X(ac_dataset_from_tokens, 0, &m->dataset, tokens, 0, 20, 4, false)                           \
  X(ac_tokenizer_open, 0, &m->tokenizer, ACCRUE_TEST_VECTORS "/tokenizers/qwen.json")          \
  X(ac_tokenizer_open, 1, &m->tokenizer, ACCRUE_TEST_VECTORS "/sentencepiece/unigram.model")   \
  X(ac_tokenizer_open, 2, &m->tokenizer, ACCRUE_TEST_VECTORS "/sentencepiece/bpe_plain.model") \
  X(ac_tokenizer_open, 3, &m->tokenizer, ACCRUE_TEST_VECTORS "/sentencepiece/bpe_bytes.gguf")  \
  X(ac_tokenizer_decode, 0, &m->text, NULL, tokenizer, ids, 3, false)                          \
  X(ac_chat_template_find, 0, &m->chat_template, "chatml")                                     \
  X(ac_chat_template_recognise, 0, &m->chat_template, chatml)                                  \
  X(ac_chat_open, 0, &m->chat, chats.text, &chat_desc)                                         \
  X(ac_dataset_from_chat, 0, &m->dataset, chat, false)                                         \
  X(ac_dataset_fold_tokens, 0, &m->dataset, &m->validation, tokens, 2, 4, 4)                   \
  X(ac_dataset_from_idx, 0, &m->dataset, pixels.text, labels.text, 0, -1)                      \
  X(ac_dataset_mnist_folder, 0, &m->dataset, &m->validation, test_folder)                      \
  X(ac_dataset_from_cifar10, 0, &m->dataset, ten.text, 0, -1)                                  \
  X(ac_dataset_from_cifar, 0, &m->dataset, ten.text, 0, -1)                                    \
  X(ac_dataset_from_cifar100, 0, &m->dataset, hundred.text, false, 0, -1)                      \
  X(ac_dataset_cifar10_folder, 0, &m->dataset, &m->validation, test_folder)                    \
  X(ac_dataset_cifar100_folder, 0, &m->dataset, &m->validation, test_folder, true)             \
  X(ac_model_open, shards, &m->model, ACCRUE_TEST_VECTORS "/models/llama3")                    \
  X(ac_model_open, gguf, &m->model, ACCRUE_TEST_VECTORS "/models/llama3.gguf")                 \
  X(ac_adapter_open, 0, &m->adapter, ACCRUE_TEST_VECTORS "/adapter_of_peft")                   \
  X(ac_adapter_config, 0, &m->text, adapted, &lora, "base")                                    \
  X(ac_model_config_json, folder, &m->text, language_model, AC_F32)                            \
  X(ac_model_config_json, gguf, &m->text, gguf_model, AC_F32)                                  \
  X(ac_model_file_open, 0, &m->file, weights.text)                                             \
  X(ac_model_file_open, 1, &m->file, ACCRUE_TEST_VECTORS "/tensors.pth")                       \
  X(ac_model_file_open, 2, &m->file, ACCRUE_TEST_VECTORS "/tensors_old.pth")                   \
  X(ac_gguf_metadata_open, 0, &m->metadata, ACCRUE_TEST_VECTORS "/blocks.gguf")

CREATIONS(CREATION)
CREATION(ac_plan_create, searched, &m->plan, graph, device, &searched)

#define ENTRY(function, name, ...) {#function, function##_##name},
static const creation creations[] = {CREATIONS(ENTRY)};
static const creation searches[] = {ENTRY(ac_plan_create, searched, 0)};

/* ---- the test -------------------------------------------------------------------------------- */

static char elsewhere;

/* Every pointer is one that has to be overwritten. */
static made marked(void) {
  made m;
  for (size_t i = 0; i < sizeof m / sizeof(void *); i++)
    memcpy((char *)&m + i * sizeof(void *), &(void *){&elsewhere}, sizeof(void *));
  return m;
}

/* Those that the call has not touched become NULL; returns how many. */
static int unmark(made *m) {
  int count = 0;
  for (size_t i = 0; i < sizeof *m / sizeof(void *); i++) {
    char *at = (char *)m + i * sizeof(void *);
    if (memcmp(at, &(void *){&elsewhere}, sizeof(void *)) != 0) continue;
    memset(at, 0, sizeof(void *));
    count++;
  }
  return count;
}

static bool is_empty(const made *m) {
  static const made empty;
  return memcmp(m, &empty, sizeof empty) == 0;
}

/* Returns whether an allocation was left to fail. */
static bool fail_allocation(const creation *c, int k, int untouched, int *failures) {
  made m = marked();
  const long before = live;
  countdown = k;
  const ac_status status = c->create(&m);
  const bool reached = countdown == 0;
  countdown = 0;
  if (unmark(&m) != untouched)
    fail_msg("%s on %s, allocation %d: a result is what it was", c->function, device_name, k);
  if (status != AC_OK && (status != AC_ERROR_MEMORY || !is_empty(&m)))
    fail_msg("%s on %s, allocation %d: %s: %s; %s", c->function, device_name, k,
             ac_status_name(status), ac_last_error(), is_empty(&m) ? "no result" : "a result");
  if (status == AC_OK) free_made(&m); /* it may do without what it asked for */
  if (live != before)
    fail_msg("%s on %s, allocation %d: %s, and %ld blocks are not free", c->function, device_name,
             k, ac_status_name(status), live - before);
  *failures += status != AC_OK;
  return reached;
}

static void fail_every_allocation(const creation *c) {
  made m = marked();
  assert_ok(c->create(&m)); /* what is made once and kept is there from now on */
  const int untouched = unmark(&m);
  free_made(&m);
  int failures = 0, k = 1;
  while (fail_allocation(c, k, untouched, &failures)) k++;
  /* What is found in a table of the library's needs no memory. */
  if (!failures && strcmp(c->function, "ac_chat_template_find"))
    fail_msg("%s: no failure of an allocation matters", c->function);
}

static ac_graph *adapted_graph(void) {
  ac_graph *small;
  assert_ok(ac_graph_create(&small));
  ac_tensor *x = ac_input(small, "x", AC_F32, AC_SHAPE(AC_BATCH, 4)),
            *w = ac_parameter(small, "l.weight", AC_SHAPE(1, 4), NULL);
  ac_graph_set_loss(small, ac_loss(ac_lora_linear(small, "l", x, w, NULL, AC_OUT_IN, &lora), NULL));
  return small;
}

static void fail_all(const char *name, const creation *list, size_t count) {
  const ac_plan_desc trains = {.batch = 4, .micro_batch = 2, .recompute = AC_RECOMPUTE_ALL};
  device_name = name;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = name, .allocator = &allocator}));
  assert_ok(ac_plan_create(&training, graph, device, &trains));
  ac_plan_desc shares = predicts;
  shares.shared = "*";
  assert_ok(ac_plan_create(&predicting, graph, device, &predicts));
  assert_ok(ac_plan_create(&sharing, graph, device, &shares));
  assert_ok(ac_trainer_create(&owner, training, NULL));
  ac_graph *small = adapted_graph();
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, small, device, &(ac_plan_desc){.batch = 4}));
  assert_ok(ac_trainer_create(&adapted, plan, NULL));
  assert_ok(ac_session_create(&other, predicting, 0));
  assert_ok(ac_model_open(&language_model, ACCRUE_TEST_VECTORS "/models/llama"));
  assert_ok(ac_model_open(&gguf_model, ACCRUE_TEST_VECTORS "/models/llama3.gguf"));
  for (size_t i = 0; i < count; i++) fail_every_allocation(&list[i]);
  ac_trainer_free(adapted);
  ac_plan_free(plan);
  ac_graph_free(small);
  ac_trainer_free(owner);
  ac_session_free(other);
  ac_model_free(language_model);
  ac_model_free(gguf_model);
  ac_plan_free(training);
  ac_plan_free(predicting);
  ac_plan_free(sharing);
  ac_device_close(device);
}

static void failed_creations_leave_nothing(void **state) {
  (void)state;
  fail_all("cpu", creations, sizeof creations / sizeof *creations);
  fail_all("dry", creations, sizeof creations / sizeof *creations);
  fail_all("dry", searches, sizeof searches / sizeof *searches);
}

/* Every function with `ac_something **` as its first parameter. */
static void every_creation_is_tried(void **state) {
  (void)state;
  read_declarations();
  for (int d = 0; d < declared_count; d++) {
    const declared *function = &declarations[d];
    if (!function->count || !strstr(function->parameter[0], "**")) continue;
    bool tried = false;
    for (size_t i = 0; i < sizeof creations / sizeof *creations; i++)
      tried |= !strcmp(creations[i].function, function->name);
    if (!tried) fail_msg("%s has no entry here", function->name);
  }
}

/* A graph that cannot grow says so, and is freed whole. */
static void graphs_that_cannot_grow_fail(void **state) {
  (void)state;
  const int64_t shape[] = {AC_BATCH, 4}, square[] = {4, 4};
  int failures = 0;
  for (bool reached = true; reached;) {
    const long before = live;
    ac_graph *g;
    assert_ok(ac_graph_create(&g));
    countdown = failures + 1;
    ac_graph_scope(g, "scope");
    ac_tensor *x = ac_input(g, "x", AC_F32, 2, shape), *target = ac_input(g, "t", AC_F32, 2, shape);
    ac_tensor *y = ac_linear(x, ac_parameter(g, "w", 2, square, NULL), NULL, AC_OUT_IN);
    for (int i = 0; i < 100; i++) y = ac_relu(y);
    ac_graph_set_output(g, "y", y);
    ac_graph_set_loss(g, ac_mean_squared_error(y, target, NULL));
    reached = countdown == 0;
    countdown = 0;
    assert_int_equal(ac_graph_status(g), reached ? AC_ERROR_MEMORY : AC_OK);
    ac_graph_free(g);
    assert_int_equal(live, before);
    failures += reached;
  }
  assert_in_range(failures, 10, 100);
}

static void read_all(ac_trainer *trainer, float all[2048], int64_t *total) {
  *total = 0;
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    assert_ok(ac_trainer_parameter_info(trainer, i, &info));
    int64_t count = 1;
    for (int d = 0; d < info.rank; d++) count *= info.shape[d];
    assert_true(*total + count <= 2048);
    assert_ok(ac_trainer_get_parameter(trainer, i, 0, count, all + *total));
    *total += count;
  }
}

/* A range test that finds no memory, for what it keeps or within its run, leaves the model. */
static void a_range_test_gives_back_what_it_took(void **state) {
  (void)state;
  static const ac_field three[] = {
      {"tokens", AC_I32, TOKENS}, {"targets", AC_I32, TOKENS}, {"weights", AC_F32, TOKENS}};
  static float ones[SAMPLES * TOKENS], before[2048], after[2048];
  const void *const same[] = {numbers, numbers, ones};
  for (int i = 0; i < SAMPLES * TOKENS; i++) ones[i] = 1;
  const ac_plan_desc trains = {.batch = 4, .micro_batch = 2, .recompute = AC_RECOMPUTE_ALL};
  ac_trainer *trainer;
  ac_dataset *samples;
  ac_rate_point points[10];
  ac_rate_test test;
  int64_t total;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .allocator = &allocator}));
  assert_ok(ac_plan_create(&training, graph, device, &trains));
  assert_ok(ac_trainer_create(&trainer, training, NULL));
  assert_ok(ac_dataset_from_memory(&samples, SAMPLES, 3, three, same));
  const ac_rate_test_desc desc = {.train = samples, .updates = 10};
  assert_ok(ac_trainer_test_rates(trainer, &desc, points, &test));
  read_all(trainer, before, &total);
  int failures = 0, k = 1;
  for (bool reached = true; reached; k++) {
    const long blocks = live;
    countdown = k;
    const ac_status status = ac_trainer_test_rates(trainer, &desc, points, &test);
    reached = countdown == 0;
    countdown = 0;
    assert_true(status == AC_OK || status == AC_ERROR_MEMORY);
    assert_int_equal(live, blocks);
    failures += status != AC_OK;
    read_all(trainer, after, &total);
    assert_memory_equal(before, after, (size_t)total * sizeof *before);
  }
  assert_true(failures > 10);
  ac_dataset_free(samples);
  ac_trainer_free(trainer);
  ac_plan_free(training);
  ac_device_close(device);
}

/* ---- files ----------------------------------------------------------------------------------- */

enum { IMAGES = 4, SIDE = 2, RECORD = 1 + 3 * 32 * 32 };

static test_path written(const char *name, const void *contents, size_t bytes) {
  test_path path = in_folder(name);
  write_file(path.text, contents, bytes);
  return path;
}

static ac_status write_zeros(void *user, int index, int64_t first, int64_t count, void *to) {
  (void)user, (void)index, (void)first;
  memset(to, 0, (size_t)count * sizeof(float));
  return AC_OK;
}

static int write_files(void) {
  static const unsigned char image_bytes[16 + IMAGES * SIDE * SIDE] = {
      0, 0, 8, 3, 0, 0, 0, IMAGES, 0, 0, 0, SIDE, 0, 0, 0, SIDE};
  static const unsigned char label_bytes[8 + IMAGES] = {0, 0, 8, 1, 0, 0, 0, IMAGES};
  static const unsigned char zeros[IMAGES * (RECORD + 1)];
  static const char chat_lines[] =
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":[{"
      "\"text\":\"b\"}]}]}\n{\"text\":\"c d\"}\n{\"instruction\":\"e\",\"input\":\"f\",\"output\":"
      "\"g\"}\n";
  if (make_test_folder(NULL) != 0) return -1;
  pixels = written("train-images-idx3-ubyte", image_bytes, sizeof image_bytes);
  labels = written("train-labels-idx1-ubyte", label_bytes, sizeof label_bytes);
  ten = written("data_batch_1.bin", zeros, IMAGES * RECORD);
  hundred = written("train.bin", zeros, IMAGES * (RECORD + 1));
  words = written("words", zeros, 40);
  chats = written("chats.jsonl", chat_lines, sizeof chat_lines - 1);
  const uint8_t two[6] = {1, 2, 3, 4, 5, 6};
  if (mkdir(in_folder("pair").text, 0700) != 0 ||
      ac_picture_write_png(in_folder("pair/a.png").text, 2, 1, 3, two) != AC_OK ||
      ac_picture_write_png(in_folder("pair/b.png").text, 1, 2, 3, two) != AC_OK)
    return -1;
  weights = in_folder("model.safetensors");
  const ac_model_tensor tensor = {"w", AC_F32, 1, {2}};
  return ac_model_file_write(weights.text, &tensor, 1, NULL, 0, write_zeros, NULL);
}

static int open_all(void **state) {
  (void)state;
  if (write_files() != 0) return -1;
  graph = test_gpt_graph(&model);
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 1, fields, data));
  assert_ok(ac_pictures_open(&pictures, NULL, ACCRUE_TEST_VECTORS "/pictures", &unlabelled));
  assert_ok(ac_dataset_from_idx(&images, pixels.text, labels.text, 0, -1));
  assert_ok(ac_tokens_from_uint16(&tokens, words.text, 256));
  assert_ok(ac_tokenizer_open(&tokenizer, ACCRUE_TEST_VECTORS "/tokenizers/qwen.json"));
  /* One that keeps no room for normalized texts. */
  chat_desc = (ac_chat_desc){.context = 16, .validation = 0.5};
  assert_ok(ac_tokenizer_open(&chat_desc.tokenizer, ACCRUE_TEST_VECTORS "/tokenizers/gpt2.json"));
  assert_ok(ac_chat_template_find(&chat_desc.chat_template, "chatml"));
  assert_ok(ac_chat_open(&chat, chats.text, &chat_desc));
  return 0;
}

static int close_all(void **state) {
  ac_graph_free(graph);
  ac_dataset_free(dataset);
  ac_dataset_free(images);
  ac_pictures_free(pictures);
  ac_tokens_free(tokens);
  ac_chat_free(chat);
  ac_tokenizer_free(chat_desc.tokenizer);
  ac_tokenizer_free(tokenizer);
  return remove_test_folder(state);
}

/* With one function missing, it would be called through NULL. */
static void half_an_allocator_is_refused(void **state) {
  (void)state;
  ac_device *device;
  for (int half = 0; half < 3; half++) {
    const ac_allocator given = {half == 1 ? allocate : NULL, half == 2 ? release : NULL, NULL};
    assert_int_equal(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .allocator = &given}),
                     AC_ERROR_ARGUMENT);
    assert_null(device);
    assert_non_null(strstr(ac_last_error(), "allocate and release"));
  }
}

static void *allocate_beside(void *user, size_t bytes, size_t alignment) {
  char *memory = aligned_alloc(alignment, (bytes + 2 * alignment - 1) / alignment * alignment);
  return memory ? memory + *(const size_t *)user : NULL;
}

static void release_beside(void *user, void *memory, size_t bytes) {
  (void)bytes;
  free((char *)memory - *(const size_t *)user);
}

/* As malloc's memory, which is sure to be aligned to 16 bytes only; what was allocated is released.
 */
static void memory_that_is_not_aligned_is_refused(void **state) {
  (void)state;
  for (size_t offset = 1; offset <= 64; offset *= 2) {
    const ac_allocator given = {allocate_beside, release_beside, &offset};
    ac_device *device;
    void *chunk = NULL;
    assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .allocator = &given}));
    const ac_status status = ac_device_allocate(device, 1000, &chunk);
    assert_int_equal(status, offset < 64 ? AC_ERROR_ARGUMENT : AC_OK);
    if (status != AC_OK) assert_non_null(strstr(ac_last_error(), "not aligned to the 64 bytes"));
    ac_device_release(device, chunk, 1000);
    assert_int_equal(ac_device_allocated_bytes(device), 0);
    ac_device_close(device);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(failed_creations_leave_nothing),
      cmocka_unit_test(every_creation_is_tried),
      cmocka_unit_test(graphs_that_cannot_grow_fail),
      cmocka_unit_test(a_range_test_gives_back_what_it_took),
      cmocka_unit_test(half_an_allocator_is_refused),
      cmocka_unit_test(memory_that_is_not_aligned_is_refused),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
