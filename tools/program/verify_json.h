/* `accrue verify --json`: what was compared, what was allowed, and the verdict. */
#ifndef TOOLS_PROGRAM_VERIFY_JSON_H
#define TOOLS_PROGRAM_VERIFY_JSON_H

#include "program/verify_judge.h"

typedef struct verify_end {
  const ac_plan *whole, *planned;
  const layout *layout;
  const record *record;
  const distances *distances;
  const spread *spread; /* NULL: not measured */
  verdict verdict;
} verify_end;

/* Prints it on stdout. A status of message.h. */
int verify_json_put(const verify_end *end);

#endif
