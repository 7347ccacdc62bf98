#include "program/classify.h"

#include "common/message.h"

#include <stdlib.h>
#include <string.h>

typedef struct room {
  void *blocks[AC_MAX_FIELDS]; /* the samples of a batch, by field */
  const void *images;
  const int32_t *labels; /* NULL: there are none */
  const int32_t *masks;  /* the same */
  int64_t pixels;        /* of a mask */
  float *logits;
} room;

static ac_status read_sample(const classification *c, const room *r, int64_t sample, int64_t slot) {
  const ac_sample_key key = {.index = sample};
  void *into[AC_MAX_FIELDS];
  for (int f = 0; f < ac_dataset_field_count(c->dataset); f++) {
    const ac_field *field = ac_dataset_field(c->dataset, f);
    into[f] =
        (char *)r->blocks[f] + (size_t)(slot * field->elements) * ac_dtype_bytes(field->dtype);
  }
  return ac_dataset_read(c->dataset, &key, into);
}

static ac_status run_batch(const classification *c, const room *r, int64_t first, int64_t count) {
  const ac_feed feed = {"images", r->images};
  ac_status status = AC_OK;
  for (int64_t i = 0; i < count && status == AC_OK; i++) status = read_sample(c, r, first + i, i);
  return status == AC_OK ? c->predict(c->model, count, &feed, count * c->elements, r->logits)
                         : status;
}

static int make_room(const classification *c, room *r) {
  for (int f = 0; f < ac_dataset_field_count(c->dataset); f++) {
    const ac_field *field = ac_dataset_field(c->dataset, f);
    r->blocks[f] = malloc((size_t)(c->batch * field->elements) * ac_dtype_bytes(field->dtype));
    if (!r->blocks[f]) return fail("out of memory");
    if (!strcmp(field->name, "labels")) r->labels = r->blocks[f];
    if (!strcmp(field->name, "masks")) r->masks = r->blocks[f], r->pixels = field->elements;
    if (!strcmp(field->name, "images")) r->images = r->blocks[f];
  }
  r->logits = malloc((size_t)(c->batch * c->elements) * sizeof *r->logits);
  return r->logits ? STATUS_CONTINUE : fail("out of memory");
}

static int run_all(const classification *c, const room *r) {
  const int64_t count = ac_dataset_count(c->dataset);
  int status = STATUS_CONTINUE;
  for (int64_t first = 0; first < count && status == STATUS_CONTINUE; first += c->batch) {
    const int64_t piece = count - first < c->batch ? count - first : c->batch;
    if (c->stop(c->stop_user)) return STATUS_CONTINUE;
    if (run_batch(c, r, first, piece) != AC_OK) return fail_library();
    for (int64_t i = 0; i < piece && status == STATUS_CONTINUE; i++) {
      const classify_sample sample = {.index = first + i,
                                      .label = r->labels ? r->labels[i] : -1,
                                      .mask = r->masks ? r->masks + i * r->pixels : NULL};
      status = c->answer(c->user, &sample, r->logits + i * c->elements);
    }
  }
  return status;
}

int classify(const classification *c) {
  room r = {.logits = NULL};
  int status = make_room(c, &r);
  if (status == STATUS_CONTINUE) status = run_all(c, &r);
  for (int f = 0; f < AC_MAX_FIELDS; f++) free(r.blocks[f]);
  free(r.logits);
  return status;
}
