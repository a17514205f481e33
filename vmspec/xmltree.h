/* XML trees, built and read. The only file that includes libxml2 is xmltree.c. Nothing is shared between documents, so any number of
 * threads may work on documents of their own. */
#pragma once
#include <stdbool.h>

#include "inventory/base/err.h"
#include "inventory/base/mem.h"
#include "inventory/base/str.h"

enum { RK_XML_MAX = 4 << 20 }; /* what libvirt itself puts in one string */

typedef struct _xmlDoc rk_xml;
typedef struct _xmlNode rk_xnode;

rk_xml *rk_xml_new(const char *root);
/* what: "the domain XML of ..."; RK_INVALID when it is no XML, too large, or declares a document type. */
int rk_xml_parse(const char *what, const char *text, rk_xml **ret, struct rk_err *err);
/* One child element of the root as a document of its own; nothing behind it is read. RK_NOT_FOUND when it is not there, also when what
 * stands before it is no XML. */
int rk_xml_part(const char *text, const char *element, rk_xml **ret);
void rk_cleanup_xml(rk_xml **xml);
#define RK_CLEANUP_XML __attribute__((cleanup(rk_cleanup_xml)))
rk_xnode *rk_xroot(rk_xml *xml);

/* A new last child; "prefix:name" takes the namespace declared under that prefix. Then pairs of attribute and value, then NULL; an
 * attribute whose value is NULL is left out. */
rk_xnode *rk_x(rk_xnode *parent, const char *name, ...) __attribute__((sentinel));
/* The same with text, without attributes. */
rk_xnode *rk_xt(rk_xnode *parent, const char *name, const char *text);
void rk_xattr(rk_xnode *node, const char *attribute, const char *format, ...) __attribute__((format(printf, 3, 4)));
void rk_xtext(rk_xnode *node, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rk_xns(rk_xnode *node, const char *prefix, const char *uri);
/* The text of what is inside a node that stands `level` deep, indented, and a node whose whole content is such a text, as it is: for parts
 * that many documents have in common. A raw part cannot be read back from the tree. */
void rk_xinner(rk_xnode *node, int level, struct rk_str *out);
void rk_xraw(rk_xnode *node, const char *text);
/* Takes out every element of that local name below node, or with "@name" every attribute of that name. */
void rk_xdrop(rk_xnode *node, const char *name);
/* RK_INVALID when a text held bytes that XML cannot carry. */
int rk_xml_sound(const rk_xml *xml, struct rk_err *err);
/* Appends the indented text without a declaration, of a sound one. */
int rk_xml_write(rk_xml *xml, struct rk_str *out, struct rk_err *err);

/* Reading by local name; NULL is "absent" everywhere. Texts are copied to the arena. */
rk_xnode *rk_xchild(rk_xnode *node, const char *name); /* first child element of that name */
rk_xnode *rk_xnext(rk_xnode *node, const char *name);  /* next sibling element of that name */
const char *rk_xns_uri(rk_xnode *node);                /* borrowed */
/* "a/b" is the text of that descendant, "a/b@c" its attribute, "@c" the node's own. */
const char *rk_xget(rk_xnode *node, const char *path, struct rk_arena *arena);
