/* Private to the files that make a domain. */
#pragma once
#include "vmspec/vmspec.h"
#include "vmspec/xmltree.h"

#define RK_DOMAIN_NS "urn:racksh:domain:1"
#define RK_QEMU_NS "http://libvirt.org/schemas/domain/qemu/1.0"

/* One rendering: what goes in, and texts made on the way. */
struct rk_domain {
	const struct rk_vm_input *in;
	const struct rk_hostcaps *caps;
	struct rk_arena *arena;
	struct rk_str *notes; /* or NULL */
	bool arm;
	rk_xnode *root, *devices;
};

/* Parts that both forms have (domain_xml.c). */
void rk_domain_disks(struct rk_domain *d, const char *iothread);
void rk_domain_serial(struct rk_domain *d);
void rk_domain_network(struct rk_domain *d, const char *queues);
