/* What ranks of this process train in tests: a small language model and small models of features,
 * and how N ranks are compared with one. */
#ifndef AC_TESTS_RANKED_CASES_H
#define AC_TESTS_RANKED_CASES_H

#include "ranked.h"

enum { RANKED_CONTEXT = 6, RANKED_VOCAB = 32, RANKED_WIDTH = 32, RANKED_SAMPLES = 43 };
enum { RANKED_FEATURES = 6, RANKED_CLASSES = 3 };
enum { RANKED_UPDATES = 20 };

/* A language model with dropout, and its data. */
ac_graph *ranked_gpt(void);
ac_status ranked_read_tokens(void *user, const ac_sample_key *key, void *const *fields);
ranked_case ranked_gpt_case(ac_optimizer_kind optimizer);

/* Matrices, with a batch norm or without one, and their data: `user` is NULL or the number of a
 * sample that is far too large. */
ac_graph *ranked_norms(void);
ac_graph *ranked_plain(void);
ac_status ranked_read_features(void *user, const ac_sample_key *key, void *const *fields);
ranked_case ranked_feature_case(ac_graph *(*graph)(void));

/* Matrices so large that each rank has several chunks of them, and an output "y". */
ac_graph *ranked_wide(void);

/* Two runs have the same bits. */
void ranked_check_bits(const ranked *a, const ranked *b);
/* Many ranks have what one has but for rounding. */
void ranked_check_near(const ranked *one, const ranked *many, double tolerance);
/* Runs of 2 to `most` ranks, at most RANKED_MOST, against that of one. */
void ranked_check_near_one(const ranked_case *c, int most, double tolerance);
/* For ranked_case.before: exchanges gradients after the last micro-batch and not while it runs. */
ac_status ranked_exchange_afterwards(ac_trainer *trainer);
/* One to four ranks, near each other; each number twice with the same bits: with an exchange while
 * the last micro-batch runs, and after it. */
void ranked_check_case(const ranked_case *c, double tolerance);

#endif
