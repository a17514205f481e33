/* What the files of discovery share. Private to provision/discover*.c. */
#pragma once
#include "inventory/base/map.h"
#include "provision/discover.h"

struct rk_compare {
	const struct rk_seen *seen;
	const struct rk_site *site;
	struct rk_arena *arena;
	struct rk_discovery *ret;
	struct rk_map *known;             /* identities that a finding about a whole tray accounts for */
	bool *explained;                  /* per tray: such a finding was made */
};
/* What answers as a tray, by the positions that are recorded. */
struct rk_tray_view {
	const char *source;               /* who told the GPUs; NULL: nobody */
	bool ports_told;
	const struct rk_seen_gpu *gpus[RK_GPUS_MAX];
	const struct rk_seen_port *ports[RK_RAILS_MAX];
};
void rk_view_tray(struct rk_compare *c, int tray, struct rk_tray_view *v);
/* Texts but the message are borrowed. */
struct rk_proposal *rk_propose(struct rk_compare *c, const char *action, const char *object, const char *field, const char *recorded, const char *seen,
			       const char *format, ...) __attribute__((format(printf, 7, 8)));
/* What apply writes for it. */
void rk_propose_edit(struct rk_proposal *p, enum rk_edit kind, int index, int tray, uint64_t guid, const char *text);
const char *rk_guid_text(struct rk_compare *c, uint64_t guid); /* NULL for 0 */
/* One more that was asked; why: it did not answer, which is told as "unknown". */
void rk_note_silence(struct rk_compare *c, const char *object, const char *field, const char *why);
/* NVLink domains, their switches, and where both say they are (discover_compare_rack.c). */
void rk_compare_racks(struct rk_compare *c, const int *trays, size_t n);
/* The lowest NVOS release that the switches of a rack run; NULL: nobody told. */
const char *rk_seen_nvos(const struct rk_compare *c, int rack);
/* Versions, hypervisor, PCI functions and who uses them (discover_compare_host.c). */
void rk_compare_host(struct rk_compare *c, int tray, const struct rk_tray_view *v);
/* Huge pages: the trays of a rack are made alike, the odd one out is told. */
void rk_compare_pages(struct rk_compare *c, const int *trays, size_t n);
