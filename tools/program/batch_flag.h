/* --batch: samples an update, a schedule of them: 32@0,128@500,512@2ep,1024@10Mtok, or batches that
 * grow by the gradient noise scale: 32..1024@noise. */
#ifndef TOOLS_PROGRAM_BATCH_FLAG_H
#define TOOLS_PROGRAM_BATCH_FLAG_H

#include "program/data.h"

#include <accrue/accrue.h>

typedef struct batch_flag {
  option_stages given;
  ac_batch_stage stages[AC_MAX_BATCH_STAGES]; /* of a schedule */
  bool counts_tokens[AC_MAX_BATCH_STAGES];    /* it begins at a token, not a sample */
  int count;         /* 0: one batch for all updates, or batches that grow */
  int64_t grow_from; /* 0: they do not grow */
} batch_flag;

/* Both return a status of message.h. `largest` is the batch that a plan is made for. */
int batch_flag_parse(batch_flag *f, int64_t *largest);
/* Once the data are known: stages that begin at a number of tokens then begin at a number of
 * samples. */
int batch_flag_count_tokens(batch_flag *f, const train_data *data);

/* The schedule that has grown, as a value of the flag: `text`; NULL: batches do not grow. */
enum { BATCH_FLAG_TEXT = AC_MAX_BATCH_STAGES * 42 };
const char *batch_flag_grown(const ac_trainer *trainer, char text[BATCH_FLAG_TEXT]);
/* The batch that a run begins with, and the smallest that it has. */
int64_t batch_flag_first(const batch_flag *f);
int64_t batch_flag_least(const batch_flag *f);

#endif
