// Package puppetcert reads a node's name and trusted facts from its Puppet
// certificate, as Puppet Server does for trusted.certname and trusted.extensions.
package puppetcert

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/bellpull/bellpull/schemas"
)

// Names maps certname and the short names of the certificate's trusted
// extensions, such as pp_role, to their values.
type Names map[string]string

// Read returns the names in the first certificate of a PEM file. A file that
// holds none is [schemas.ErrInvalid].
func Read(file string) (Names, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s: holds no PEM certificate: %w", file, schemas.ErrInvalid)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", file, err, schemas.ErrInvalid)
	}
	return FromCertificate(cert), nil
}

// FromCertificate returns the names in cert.
func FromCertificate(cert *x509.Certificate) Names {
	names := Names{"certname": cert.Subject.CommonName}
	for _, extension := range cert.Extensions {
		name := shortName(extension.Id)
		if name == "" {
			continue
		}
		// Puppet writes a DER UTF8String; releases before 4 wrote the bare text.
		var value string
		if rest, err := asn1.Unmarshal(extension.Value, &value); err != nil || len(rest) > 0 {
			value = string(extension.Value)
		}
		names[name] = value
	}
	return names
}

// shortName knows the object identifiers that Puppet registered, below
// 1.3.6.1.4.1.34380.1 (puppet: lib/puppet/ssl/oids.rb); "" for any other.
func shortName(id asn1.ObjectIdentifier) string {
	arc := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 34380, 1}
	if len(id) != len(arc)+2 || !id[:len(arc)].Equal(arc) {
		return ""
	}
	names := map[[2]int]string{
		{1, 1}: "pp_uuid", {1, 2}: "pp_instance_id", {1, 3}: "pp_image_name", {1, 4}: "pp_preshared_key",
		{1, 5}: "pp_cost_center", {1, 6}: "pp_product", {1, 7}: "pp_project", {1, 8}: "pp_application",
		{1, 9}: "pp_service", {1, 10}: "pp_employee", {1, 11}: "pp_created_by", {1, 12}: "pp_environment",
		{1, 13}: "pp_role", {1, 14}: "pp_software_version", {1, 15}: "pp_department", {1, 16}: "pp_cluster",
		{1, 17}: "pp_provisioner", {1, 18}: "pp_region", {1, 19}: "pp_datacenter", {1, 20}: "pp_zone",
		{1, 21}: "pp_network", {1, 22}: "pp_securitypolicy", {1, 23}: "pp_cloudplatform", {1, 24}: "pp_apptier",
		{1, 25}: "pp_hostname", {1, 26}: "pp_owner", {3, 1}: "pp_authorization", {3, 13}: "pp_auth_role",
	}
	return names[[2]int{id[len(arc)], id[len(arc)+1]}]
}
