import java.io.ByteArrayInputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import net.spy.memcached.ClientMode;

/**
 * Flows of the ElastiCache cluster client, a spymemcached with TLS, in its text protocol against one address:
 * ElastiCacheFlows HOST PORT. FLOWS_CA names a file with the authority of a server that speaks TLS. FLOWS_CERT and
 * FLOWS_KEY are files with what the client shows to one that wants a certificate.
 */
final class ElastiCacheFlows {
    private static final char[] IN_MEMORY = "not kept".toCharArray();

    private ElastiCacheFlows() {}

    public static void main(String[] arguments) throws Exception {
        // Static: the address is a server, and not one that knows where servers are.
        var builder = SpyFlows.builder().setClientMode(ClientMode.Static);
        if (System.getenv("FLOWS_CA") != null) {
            builder.setSSLContext(context()).setHostnameForTlsVerification("localhost");
        }
        SpyFlows.runAll(builder, arguments);
    }

    private static SSLContext context() throws Exception {
        var trusted = empty();
        trusted.setCertificateEntry("authority", certificate("FLOWS_CA"));
        var trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        var shown = empty();
        if (System.getenv("FLOWS_CERT") != null) {
            shown.setKeyEntry("client", key("FLOWS_KEY"), IN_MEMORY, new Certificate[] {certificate("FLOWS_CERT")});
        }
        var keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(shown, IN_MEMORY);
        var context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
        return context;
    }

    private static KeyStore empty() throws Exception {
        var store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        return store;
    }

    private static Certificate certificate(String variable) throws Exception {
        return CertificateFactory.getInstance("X.509").generateCertificate(new ByteArrayInputStream(file(variable)));
    }

    private static PrivateKey key(String variable) throws Exception {
        String text = new String(file(variable)).replaceAll("-----.*-----", "");
        return KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(Base64.getMimeDecoder().decode(text)));
    }

    private static byte[] file(String variable) throws Exception {
        return Files.readAllBytes(Path.of(System.getenv(variable)));
    }
}
