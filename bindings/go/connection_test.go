// Connections: kept, and with TLS.

package tollgate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConnectionsAreKept(t *testing.T) {
	s := start(t, "127.0.0.1:0")
	for name, client := range s.clients(t) {
		for i := 0; i < 20; i++ {
			question := On(unique(t), "9/h")
			if _, err := client.Check(within(t, 20*time.Second), question); err != nil {
				t.Fatal(name, err)
			}
		}
	}
	response := must[*http.Response](t)(http.Get(s.http + "/metrics"))
	defer response.Body.Close()
	metrics := string(must[[]byte](t)(io.ReadAll(response.Body)))
	// One of each client, and this one.
	if !strings.Contains(metrics, "\ntollgate_connections_accepted_total 3\n") {
		for _, line := range strings.Split(metrics, "\n") {
			if strings.HasPrefix(line, "tollgate_connections_accepted_total") {
				t.Error(line)
			}
		}
	}
}

func TestAConnectionThatEndsIsNotUsedAgain(t *testing.T) {
	resp := freePort(t)
	s := start(t, "127.0.0.1:0", "--resp", resp)
	client := open(t, "redis://"+resp)
	if _, err := client.Check(within(t, 20*time.Second), On("user:1", "9/h")); err != nil {
		t.Fatal(err)
	}
	s.kill()
	pool := client.(*respClient).pool
	for end := time.Now().Add(20 * time.Second); ; {
		pool.mutex.Lock()
		count := len(pool.all)
		pool.mutex.Unlock()
		if count == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a dead connection stays")
		}
		time.Sleep(time.Millisecond) // tidy: sleep-ok the system tells of the end
	}
	start(t, "127.0.0.1:0", "--resp", resp)
	if _, err := client.Check(within(t, 20*time.Second), On("user:1", "9/h")); err != nil {
		t.Error(err)
	}
	client.Close()
	_, err := client.Check(within(t, 20*time.Second), On("user:1", "9/h"))
	var lost *StoreError
	if !errors.As(err, &lost) || lost.Ambiguous {
		t.Error("a closed client asks nobody:", err)
	}
}

// certificate writes a certificate for 127.0.0.1 and its key, and returns who trusts it.
func certificate(t *testing.T, folder string) *x509.CertPool {
	t.Helper()
	key := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	made := must[[]byte](t)(
		x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	private := must[[]byte](t)(x509.MarshalPKCS8PrivateKey(key))
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: made},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: private},
	} {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(must[*x509.Certificate](t)(x509.ParseCertificate(made)))
	return trusted
}

func TestTLS(t *testing.T) {
	folder := t.TempDir()
	trusted := &tls.Config{RootCAs: certificate(t, folder)}
	s := start(t, "127.0.0.1:0", "--tls-cert", filepath.Join(folder, "cert.pem"),
		"--tls-key", filepath.Join(folder, "key.pem"), "--tls-for", "http", "--tls-for", "resp")
	web := "https://" + strings.TrimPrefix(strings.TrimPrefix(s.http, "https://"), "http://")
	redis := "rediss://" + strings.TrimPrefix(s.resp, "redis://")
	for _, url := range []string{web, redis} {
		secured := open(t, url, WithTLS(trusted))
		if _, err := secured.Check(within(t, 20*time.Second), On("user:1", "9/h")); err != nil {
			t.Error(url, err)
		}
		stranger := open(t, url)
		_, err := stranger.Check(within(t, 20*time.Second), On("user:1", "9/h"))
		var lost *StoreError
		if !errors.As(err, &lost) {
			t.Error(url, "is trusted without its certificate:", err)
		}
	}
}
