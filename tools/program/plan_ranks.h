/* `accrue plan --ranks`: what the exchange between ranks costs, and what other numbers of ranks
 * would need. */
#ifndef TOOLS_PROGRAM_PLAN_RANKS_H
#define TOOLS_PROGRAM_PLAN_RANKS_H

#include "program/setup.h"

void plan_ranks_flags(options *o);

/* Under a launcher: measures the network between its ranks. Ranks above 0 have nothing more to do
 * after that: STATUS_DONE. A status of message.h. */
int plan_ranks_measure(int argc, char **argv);

/* Plans for as many ranks as the launcher has started, unless a number is given. */
void plan_ranks_settle(setup *s);

typedef struct priced_ranks {
  int ranks;
  bool fits;
  int64_t share;
  uint64_t bytes; /* on the device of rank 0 */
  ac_rank_price price;
  double efficiency; /* against the first one that fits */
} priced_ranks;

enum { MOST_PRICED = 12 };

typedef struct ranks_report {
  ac_network network;
  bool measured;
  priced_ranks rows[MOST_PRICED]; /* 1, 2, 4, ... and the number that was asked for */
  int count;                      /* 0: one rank was asked for */
} ranks_report;

/* Plans for each number of ranks. `change` as in setup_plan. */
int plan_ranks_price(const setup *s, void (*change)(ac_plan_desc *desc), ranks_report *report);
void plan_ranks_print(const ranks_report *report);
/* A list, and the network; NULL for want of memory. */
json_t *plan_ranks_json(const ranks_report *report);

#endif
