/* Forms of the values of a site file. Pure: text in, yes or no out. */
#pragma once
#include <stdbool.h>

bool rk_pci_valid(const char *s);         /* "0008:06:00.0", lower case */
bool rk_uuid_valid(const char *s);        /* 8-4-4-4-12 hexadecimal digits, not all 0 (an all-zero ClusterUUID is a fault, no identity) */
bool rk_ip_valid(const char *s);          /* IPv4 or IPv6 address */
bool rk_cidr_valid(const char *s);        /* address/prefix */
bool rk_image_name_valid(const char *s);  /* 1..63 of [A-Za-z0-9._-], begins with a letter or digit */
bool rk_jump_valid(const char *s);        /* "" or up to 4 of user@host:port (user and port optional), commas between */
bool rk_libvirt_uri_valid(const char *s); /* driver[+transport]://..., printable, no blanks */
