package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/openziti/edge-api/rest_model"
)

// fail stops the program if making a key or signing with it failed, which is no fault of the controller.
func fail(err error) {
	if err != nil {
		panic(err)
	}
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	fail(err)
	return key
}

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func keyPEM(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	fail(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func fingerprint(der []byte) string {
	sum := sha1.Sum(der)
	return hex.EncodeToString(sum[:])
}

// An Authority is a third-party certificate authority.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

func newAuthority(name string) Authority {
	key := newKey()
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	fail(err)
	cert, err := x509.ParseCertificate(der)
	fail(err)
	return Authority{cert: cert, key: key, pem: pemOf(der)}
}

// issue returns a client certificate for the name.
func (a Authority) issue(name string) *tls.Certificate {
	key := newKey()
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, &key.PublicKey, a.key)
	fail(err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// request is a certificate request for the name, PEM.
func request(key *ecdsa.PrivateKey, name string) string {
	template := x509.CertificateRequest{Subject: pkix.Name{Country: []string{"US"}, CommonName: name}}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	fail(err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

// held is a certificate chain, PEM, with its key.
func held(chain string, key *ecdsa.PrivateKey) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair([]byte(chain), []byte(keyPEM(key)))
	return &pair, err
}

// token is a token that the authority signed with its key, for an hour.
func (a Authority) token(issuer, audience, subject string) string {
	claims := jwt.MapClaims{"iss": issuer, "aud": audience, "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
	token := jwt.NewWithClaims(jwt.SigningMethodES256, claims)
	token.Header["kid"] = fingerprint(a.cert.Raw)
	text, err := token.SignedString(a.key)
	fail(err)
	return text
}

// keySet serves the key that the authority signs tokens with, as a key set (RFC 7517).
func (a Authority) keySet() rest_model.Jwks {
	number := func(of *big.Int) string { return base64.RawURLEncoding.EncodeToString(of.FillBytes(make([]byte, 32))) }
	return rest_model.Jwks{Keys: []*rest_model.Jwk{{Kty: ptr("EC"), Crv: "P-256", Alg: "ES256", Kid: fingerprint(a.cert.Raw),
		X: number(a.key.X), Y: number(a.key.Y)}}}
}

// A Secret is the shared secret of an app for one-time codes.
type Secret []byte

// secretOf reads a provisioning URL, as an app does.
func secretOf(address string) (Secret, error) {
	parsed, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(parsed.Query().Get("secret"))
}

// code returns the one-time code (RFC 6238) of the time step this many half minutes from now.
func (s Secret) code(steps int) string {
	counter := make([]byte, 8)
	binary.BigEndian.PutUint64(counter, uint64(time.Now().Unix()/30+int64(steps)))
	mac := hmac.New(sha1.New, s)
	_, _ = mac.Write(counter)
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[at:])&0x7fffffff)%1_000_000)
}

// wrong returns a code that is not valid now.
func (s Secret) wrong() string {
	right := map[string]bool{}
	for step := -4; step <= 4; step++ {
		right[s.code(step)] = true
	}
	for guess := 0; ; guess++ {
		if code := fmt.Sprintf("%06d", guess); !right[code] {
			return code
		}
	}
}
